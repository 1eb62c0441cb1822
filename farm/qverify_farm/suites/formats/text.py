"""A suite's report for a terminal: the jobs that did not pass, what changed, and finally the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.printable import visible

from qverify_farm.suites.formats.report_lines import (
    caveat_lines,
    flaky_lines,
    headline,
    reason,
    trend_lines,
    verdict_words,
    worst_first,
)
from qverify_farm.suites.suite_report import SuiteReport

MAX_ROWS = 40


def render(report: SuiteReport) -> str:
    """Returns the text. It shows all jobs if there are few, otherwise those that did not pass."""
    report = visible(report)
    rows = [job for job in worst_first(report) if len(report.jobs) <= MAX_ROWS or job.verdict != "PASSED"]
    table = [(job.name, job.board or "-", verdict_words(job), job.change, reason(job)) for job in rows[:MAX_ROWS]]
    lines = columns(("job", "board", "verdict", "change", "why"), table) if table else []
    if len(rows) > MAX_ROWS:
        lines.append(f"... {len(rows) - MAX_ROWS} more; --html or --json has all")
    return "\n".join([*lines, *trend_lines(report), *flaky_lines(report), *caveat_lines(report), headline(report), ""])


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the rows below their heads, in aligned columns. An empty column is left out."""
    kept = [column for column in range(len(head)) if any(row[column] for row in rows)]
    table = [[row[column] for column in kept] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(kept))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
