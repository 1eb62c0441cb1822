"""GitLab's code quality report: an issue for each verdict that is not PASSED and for each tensor behind it."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from qverify.printable import shortened, visible
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.report_text import write_report
from qverify.renderers.verdict_lines import verdict_line
from qverify.report.document import Pair, ReportDocument, Verdict
from qverify.report.weakenings import list_common_caveats

SUFFIX = ".codequality.json"
MAX_TENSORS = 100  # issues for tensors of a pair
MAX_TEXT_LENGTH = 1000  # characters
SEVERITY = {"FAILED": ("critical", "major"), "INCONCLUSIVE": ("major", "minor")}  # for a pair, for a tensor


def write(report: ReportDocument, path: str) -> None:
    """Writes the list of issues, which is empty if everything PASSED. Fingerprints are the same in every run, so that
    GitLab can tell which issues are new and which are resolved. The location is the model's file, since GitLab shows no
    issue without one."""
    report = visible(report)
    place = _place(report)
    issues = [issue for pair in report.pairs for issue in _issues(report, pair, place)]
    if report.verdict != "PASSED" and not issues:
        text = "; ".join(text for _, text in overall_lines(report)) or "nothing compared"
        issues = [_issue("verdict", f"{report.verdict}: {text}", report.verdict, 0, place, ())]
    write_report(json.dumps(issues, indent=1) + "\n", path)


def _place(report: ReportDocument) -> str:
    """Returns the path of the first model, relative to the current folder if it lies below it, or else its file
    name."""
    path = str(report.models[0].get("path", "")) if report.models else ""
    relative = os.path.relpath(path) if path and os.path.isabs(path) else path
    return os.path.basename(relative) if relative.startswith("..") else relative or "qverify"


def _issues(report: ReportDocument, pair: Pair, place: str) -> list[dict[str, Any]]:
    if pair.verdict == "PASSED":
        return []
    who = (pair.a, pair.b, pair.frame, pair.board)
    issues = [_issue("verdict", verdict_line(pair, list_common_caveats(report)), pair.verdict, 0, place, who)]
    for row in [row for row in pair.tensors if row.verdict != "PASSED"][:MAX_TENSORS]:
        text = f"{pair.a} ~ {pair.b}: {row.name} ({row.op}) {row.verdict}: {row.why or f'{row.failing} of {row.elements} differ'}"
        issues.append(_issue("tensor", text, row.verdict, 1, place, (*who, row.name)))
    for missing in pair.coverage.missing[:MAX_TENSORS]:
        text = f"{pair.a} ~ {pair.b}: {missing.tensor} is missing in {missing.side}: {missing.why}"
        issues.append(_issue("missing", text, "INCONCLUSIVE", 1, place, (*who, missing.tensor)))
    return issues


def _issue(check: str, text: str, verdict: Verdict, part: int, place: str, who: tuple[Any, ...]) -> dict[str, Any]:
    """Returns one issue. part: 0 for a pair, 1 for a tensor. who: values that distinguish it from other issues."""
    return {
        "description": shortened(text, MAX_TEXT_LENGTH),
        "check_name": f"qverify.{check}",
        "fingerprint": hashlib.sha256(repr((check, *who)).encode(errors="surrogatepass")).hexdigest(),
        "severity": SEVERITY[verdict][part],
        "location": {"path": place, "lines": {"begin": 1}},
    }
