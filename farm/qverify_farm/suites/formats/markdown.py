"""A comment for a merge request: the suite's verdict, what changed, and the jobs that did not pass."""

from __future__ import annotations

from qverify.printable import visible

from qverify_farm.suites.formats.rows import flaky, headline, reason, trends, verdict_words, when, worst_first
from qverify_farm.suites.suite_report import SuiteReport

MARKS = {"PASSED": "✅", "FAILED": "❌", "INCONCLUSIVE": "⚠️"}
MOST_ROWS, MOST_NAME, MOST_TEXT = 50, 200, 60_000
SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_{}[]!|~"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"}
)


def render(report: SuiteReport) -> str:
    """Returns the comment. Names are escaped, and mention nobody."""
    report = visible(report)
    labels = ", ".join(f"{_plain(key)} {_plain(value)}" for key, value in report.labels.items())
    lines = [f"### {MARKS[report.verdict]} {_plain(headline(report))}", ""]
    lines += [f"Run {report.id[:12]}, {when(report.created)}{f', {labels}' if labels else ''}", ""]
    lines += [f"- {_plain(line)}" for line in [*trends(report), *flaky(report)]]
    bad = [job for job in worst_first(report) if job.verdict != "PASSED"]
    if bad:
        lines += ["", "| job | board | verdict | change | why |", "|---|---|---|---|---|"]
        for job in bad[:MOST_ROWS]:
            cells = (job.name, job.board, verdict_words(job), job.change, reason(job))
            lines.append(f"| {' | '.join(_plain(cell)[:MOST_NAME] for cell in cells)} |")
        if len(bad) > MOST_ROWS:
            lines += ["", f"{len(bad) - MOST_ROWS} more that did not pass."]
    return "\n".join(lines)[:MOST_TEXT] + "\n"


def _plain(text: str) -> str:
    return text.translate(SPECIAL)
