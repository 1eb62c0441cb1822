"""A suite's report as a comment for a merge request: the verdict, what changed, and the jobs that did not pass."""

from __future__ import annotations

from qverify.printable import visible

from qverify_farm.suites.formats.report_lines import (
    caveat_lines,
    flaky_lines,
    format_time,
    headline,
    reason,
    trend_lines,
    verdict_words,
    worst_first,
)
from qverify_farm.suites.suite_report import SuiteReport

MARKS = {"PASSED": "✅", "FAILED": "❌", "INCONCLUSIVE": "⚠️"}
MAX_ROWS, MAX_CELL_LENGTH, MAX_TEXT_LENGTH = 50, 200, 60_000
SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_{}[]!|~"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"}
)


def render(report: SuiteReport) -> str:
    """Returns the comment. Names are escaped, and an @ in them mentions nobody."""
    report = visible(report)
    labels = ", ".join(f"{_escaped(key)} {_escaped(value)}" for key, value in report.labels.items())
    lines = [f"### {MARKS[report.verdict]} {_escaped(headline(report))}", ""]
    lines += [f"Run {report.id[:12]}, {format_time(report.created)}{f', {labels}' if labels else ''}", ""]
    lines += [f"- {_escaped(line)}" for line in [*trend_lines(report), *flaky_lines(report), *caveat_lines(report)]]
    not_passed = [job for job in worst_first(report) if job.verdict != "PASSED"]
    if not_passed:
        lines += ["", "| job | board | verdict | change | why |", "|---|---|---|---|---|"]
        for job in not_passed[:MAX_ROWS]:
            cells = (job.name, job.board, verdict_words(job), job.change, reason(job))
            lines.append(f"| {' | '.join(_escaped(cell)[:MAX_CELL_LENGTH] for cell in cells)} |")
        if len(not_passed) > MAX_ROWS:
            lines += ["", f"{len(not_passed) - MAX_ROWS} more that did not pass."]
    return "\n".join(lines)[:MAX_TEXT_LENGTH] + "\n"


def _escaped(text: str) -> str:
    return text.translate(SPECIAL)
