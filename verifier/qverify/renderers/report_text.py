"""Writes a report's text to a file or to standard output."""

from __future__ import annotations

import sys

from qverify.files import write_text


def write_report(text: str, path: str) -> None:
    """Writes the file completely or not at all. The path "-" is standard output. Raises UsageError if it cannot be
    written."""
    if path == "-":
        sys.stdout.write(text)
    else:
        write_text(text, path)
