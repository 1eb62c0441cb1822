"""The JSON report (`qverify schema` prints its schema)."""

from __future__ import annotations

import json
from typing import Any

from qverify.renderers.report_text import write_report
from qverify.report.difference import ReportDifference
from qverify.report.document import ReportDocument
from qverify.report.matrix.document import MatrixDocument
from qverify.report.report_json import to_json
from qverify.report.triage_document import TriageDocument

SUFFIX = ".json"


def write(report: ReportDocument, path: str) -> None:
    _write(to_json(report), path)


def write_triage(triage: TriageDocument, path: str) -> None:
    _write(triage.to_json(), path)


def write_difference(difference: ReportDifference, path: str) -> None:
    _write(difference.to_json(), path)


def write_matrix(matrix: MatrixDocument, path: str) -> None:
    _write(matrix.to_json(), path)


def _write(document: dict[str, Any], path: str) -> None:
    write_report(json.dumps(document, indent=1, allow_nan=False) + "\n", path)
