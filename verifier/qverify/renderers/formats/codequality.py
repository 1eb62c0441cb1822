"""GitLab's code quality report: an issue for each verdict that is not PASSED and for each tensor behind it."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from qverify.printable import shortened, visible
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.report_text import write_report
from qverify.renderers.verdict_lines import common_weakenings, line
from qverify.report.document import Pair, Report, Verdict

SUFFIX = ".codequality.json"
MOST = 100  # tensors of a pair
MOST_TEXT = 1000
SEVERITY = {"FAILED": ("critical", "major"), "INCONCLUSIVE": ("major", "minor")}  # of a pair, of its tensor


def write(report: Report, path: str) -> None:
    """Writes the list; an empty one where everything PASSED. Its fingerprints are the same from run to run, so that GitLab can say
    what is new and what is resolved. The place is the model's file: GitLab shows no issue without one."""
    report = visible(report)
    place = _place(report)
    issues = [issue for pair in report.pairs for issue in _issues(report, pair, place)]
    if report.verdict != "PASSED" and not issues:
        said = "; ".join(said for _, said in overall_lines(report)) or "nothing compared"
        issues = [_issue("verdict", f"{report.verdict}: {said}", report.verdict, 0, place, ())]
    write_report(json.dumps(issues, indent=1) + "\n", path)


def _place(report: Report) -> str:
    """Returns the path of the first model, relative to the current folder where it is below it, else its name."""
    path = str(report.models[0].get("path", "")) if report.models else ""
    near = os.path.relpath(path) if path and os.path.isabs(path) else path
    return os.path.basename(near) if near.startswith("..") else near or "qverify"


def _issues(report: Report, pair: Pair, place: str) -> list[dict[str, Any]]:
    if pair.verdict == "PASSED":
        return []
    who = (pair.a, pair.b, pair.frame, pair.board)
    issues = [_issue("verdict", line(pair, common_weakenings(report)), pair.verdict, 0, place, who)]
    for row in [row for row in pair.tensors if row.verdict != "PASSED"][:MOST]:
        said = f"{pair.a} ~ {pair.b}: {row.name} ({row.op}) {row.verdict}: {row.why or f'{row.failing} of {row.elements} differ'}"
        issues.append(_issue("tensor", said, row.verdict, 1, place, (*who, row.name)))
    for missing in pair.coverage.missing[:MOST]:
        said = f"{pair.a} ~ {pair.b}: {missing.tensor} is missing in {missing.side}: {missing.why}"
        issues.append(_issue("missing", said, "INCONCLUSIVE", 1, place, (*who, missing.tensor)))
    return issues


def _issue(check: str, said: str, verdict: Verdict, part: int, place: str, who: tuple[Any, ...]) -> dict[str, Any]:
    """Returns one issue. part: 0 of a pair, 1 of a tensor. who: what tells it from the others."""
    return {
        "description": shortened(said, MOST_TEXT),
        "check_name": f"qverify.{check}",
        "fingerprint": hashlib.sha256(repr((check, *who)).encode(errors="surrogatepass")).hexdigest(),
        "severity": SEVERITY[verdict][part],
        "location": {"path": place, "lines": {"begin": 1}},
    }
