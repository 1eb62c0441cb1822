"""A suite's report as JSON, in the schema that `qverify suite schema` prints."""

from __future__ import annotations

import json

from qverify_farm.suites.suite_report import SuiteReport


def render(report: SuiteReport) -> str:
    """Returns the document."""
    return json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n"
