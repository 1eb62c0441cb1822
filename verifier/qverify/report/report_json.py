"""Makes the published JSON document of a report."""

from __future__ import annotations

from typing import Any

from qverify.report.document import SCHEMA, ReportDocument, plain
from qverify.report.weakenings import list_caveats


def to_json(report: ReportDocument) -> dict[str, Any]:
    """Returns the document as plain values that `json.dumps(allow_nan=False)` accepts, with each row's metrics in the
    row, and in `caveats` everything that weakens a verdict."""
    document: dict[str, Any] = {"schema": SCHEMA} | plain(report) | {"caveats": list_caveats(report)}
    return document
