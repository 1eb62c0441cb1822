"""Writes a report's text where it was asked for."""

from __future__ import annotations

import sys

from qverify.files import write_text


def write_report(text: str, path: str) -> None:
    """Writes the whole file or none of it; "-" is standard output. UsageError where it cannot be written."""
    if path == "-":
        sys.stdout.write(text)
    else:
        write_text(text, path)
