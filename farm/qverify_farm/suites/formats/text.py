"""A suite's report for a terminal: the jobs that did not pass, what changed, the verdict last."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.printable import visible

from qverify_farm.suites.formats.rows import flaky, headline, reason, trends, verdict_words, worst_first
from qverify_farm.suites.suite_report import SuiteReport

MOST_ROWS = 40


def render(report: SuiteReport) -> str:
    """Returns the lines. Of a few jobs all are shown, of many those that did not PASS."""
    report = visible(report)
    rows = [job for job in worst_first(report) if len(report.jobs) <= MOST_ROWS or job.verdict != "PASSED"]
    table = [(job.name, job.board or "-", verdict_words(job), job.change, reason(job)) for job in rows[:MOST_ROWS]]
    lines = columns(("job", "board", "verdict", "change", "why"), table) if table else []
    if len(rows) > MOST_ROWS:
        lines.append(f"... {len(rows) - MOST_ROWS} more; --html or --json has all")
    return "\n".join([*lines, *trends(report), *flaky(report), headline(report), ""])


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the rows under their heads, aligned; a column of nothing is left out."""
    kept = [at for at in range(len(head)) if any(row[at] for row in rows)]
    table = [[row[at] for at in kept] for row in (head, *rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(kept))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
