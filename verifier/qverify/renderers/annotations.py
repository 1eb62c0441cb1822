"""What a report says in a few lines, as a CI system shows it beside a change: GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from qverify.printable import shortened, visible
from qverify.renderers.difference_rows import headline
from qverify.renderers.triage_text import conclusion
from qverify.renderers.verdict_lines import common_weakenings, line
from qverify.report.difference import ReportDifference
from qverify.report.document import Report
from qverify.report.triage_document import TriageDocument

MOST = 10  # annotations of one kind; GitHub shows no more of a step
MOST_TEXT = 2000  # characters of one
LEVELS: dict[str, Literal["error", "warning"]] = {"FAILED": "error", "INCONCLUSIVE": "warning"}
DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
PROPERTY = DATA | {":": "%3A", ",": "%2C"}


@dataclass(frozen=True, slots=True)
class Annotation:
    """One line beside a change."""

    level: Literal["error", "warning"]
    title: str
    text: str


def list_annotations(found: Report | TriageDocument | ReportDifference) -> list[Annotation]:
    """Returns an annotation for each verdict that is not PASSED, blame first; none for a result that is."""
    found = visible(found)
    if isinstance(found, ReportDifference):
        level: Literal["error", "warning"] = "error" if found.change == "worse" else "warning"
        return [Annotation(level, f"qverify report diff: {found.change}", headline(found))] if found.exit_status else []
    if isinstance(found, TriageDocument):
        title = f"qverify triage: {found.verdict}"
        return [Annotation(LEVELS[found.verdict], title, conclusion(found))] if found.verdict in LEVELS else []
    return _of_report(found)


def _of_report(report: Report) -> list[Annotation]:
    if report.verdict not in LEVELS:
        return []
    blamed = [
        Annotation("error", f"qverify: {b.side} is to blame", f"{b.side} at {b.node}: {b.why}") for b in report.blamed
    ]
    common = common_weakenings(report)
    judged = [
        Annotation(LEVELS[p.verdict], f"qverify: {p.verdict}", line(p, common))
        for p in report.pairs
        if p.verdict in LEVELS
    ]
    whole = Annotation(LEVELS[report.verdict], f"qverify: {report.verdict}", "no pair is the reason; see the report")
    return [*blamed, *judged] or [whole]


def github_commands(rows: Iterable[Annotation]) -> list[str]:
    """Returns the workflow commands, at most MOST of each level; no text of theirs can end a line or begin a command."""
    rows = list(rows)
    kept = [row for level in ("error", "warning") for row in [r for r in rows if r.level == level][:MOST]]
    return [
        f"::{r.level} title={_escape(r.title, PROPERTY)}::{_escape(shortened(r.text, MOST_TEXT), DATA)}" for r in kept
    ]


def _escape(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(c, c) for c in text)
