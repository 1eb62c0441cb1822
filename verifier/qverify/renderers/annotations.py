"""Renders a report as annotations, which a CI system shows beside a change: GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from qverify.printable import shortened, visible
from qverify.renderers.blamed import blame_in_one_line
from qverify.renderers.difference_rows import headline
from qverify.renderers.matrix_rows import headline as headline_of_matrix
from qverify.renderers.triage_text import conclusion
from qverify.renderers.verdict_lines import verdict_line
from qverify.report.difference import ReportDifference
from qverify.report.document import ReportDocument
from qverify.report.matrix.document import MatrixDocument
from qverify.report.triage_document import TriageDocument
from qverify.report.weakenings import list_common_caveats

MAX_PER_LEVEL = 10  # annotations; GitHub shows no more for a step
MAX_TEXT_LENGTH = 2000  # characters
LEVELS: dict[str, Literal["error", "warning"]] = {"FAILED": "error", "INCONCLUSIVE": "warning"}
TEXT_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
TITLE_ESCAPES = TEXT_ESCAPES | {":": "%3A", ",": "%2C"}


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation."""

    level: Literal["error", "warning"]
    title: str
    text: str


def list_annotations(result: ReportDocument | TriageDocument | ReportDifference | MatrixDocument) -> list[Annotation]:
    """Returns an annotation for each blame and each verdict that is not PASSED; [] for a result that is PASSED."""
    result = visible(result)
    if isinstance(result, ReportDifference):
        level: Literal["error", "warning"] = "error" if result.change == "worse" else "warning"
        return (
            [Annotation(level, f"qverify report diff: {result.change}", headline(result))] if result.exit_status else []
        )
    if isinstance(result, MatrixDocument):
        title = f"qverify report matrix: {result.verdicts}"
        of_exit: Literal["error", "warning"] = "error" if result.verdicts == "changed" else "warning"
        return [Annotation(of_exit, title, headline_of_matrix(result))] if result.exit_status else []
    if isinstance(result, TriageDocument):
        title = f"qverify triage: {result.verdict}"
        return [Annotation(LEVELS[result.verdict], title, conclusion(result))] if result.verdict in LEVELS else []
    return _of_report(result)


def _of_report(report: ReportDocument) -> list[Annotation]:
    if report.verdict not in LEVELS:
        return []
    blamed = [Annotation("error", f"qverify: {b.side} is to blame", blame_in_one_line(b)) for b in report.blamed]
    common = list_common_caveats(report)
    judged = [
        Annotation(LEVELS[p.verdict], f"qverify: {p.verdict}", verdict_line(p, common))
        for p in report.pairs
        if p.verdict in LEVELS
    ]
    whole = Annotation(LEVELS[report.verdict], f"qverify: {report.verdict}", "no pair is the reason; see the report")
    return [*blamed, *judged] or [whole]


def github_commands(rows: Iterable[Annotation]) -> list[str]:
    """Returns the workflow commands, at most MAX_PER_LEVEL of each level. Texts are escaped, so that they cannot end a
    line or begin a command."""
    rows = list(rows)
    kept = [row for level in ("error", "warning") for row in [r for r in rows if r.level == level][:MAX_PER_LEVEL]]
    return [
        f"::{r.level} title={_escape(r.title, TITLE_ESCAPES)}::{_escape(shortened(r.text, MAX_TEXT_LENGTH), TEXT_ESCAPES)}"
        for r in kept
    ]


def _escape(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(c, c) for c in text)
