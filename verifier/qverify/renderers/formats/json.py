"""The JSON report (`qverify schema` prints its schema)."""

from __future__ import annotations

import json
import sys
from typing import Any

from qverify.files import write_text
from qverify.report.document import Report
from qverify.report.triage_document import Triage

SUFFIX = ".json"


def write(report: Report, path: str) -> None:
    _write(report.to_json(), path)


def write_triage(triage: Triage, path: str) -> None:
    _write(triage.to_json(), path)


def _write(document: dict[str, Any], path: str) -> None:
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        write_text(text, path)
