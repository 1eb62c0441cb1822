"""The JSON report, written whole or not at all."""

from __future__ import annotations

import json
import sys
from typing import Any

from qverify.files import write_text
from qverify.report.document import Report


def write(report: Report, path: str) -> None:
    """`-` is stdout. UsageError when the file cannot be written."""
    write_document(report.to_json(), path)


def write_document(held: dict[str, Any], path: str) -> None:
    """Any document of plain values, as write()."""
    text = json.dumps(held, indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    write_text(text, path)
