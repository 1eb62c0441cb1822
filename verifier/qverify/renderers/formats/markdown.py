"""A comment for a merge request: the verdict, the blame, a table of what differs, and the rest folded away."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.report.document import Pair, Report, TensorRow

SUFFIX = ".md"
MOST = 20  # rows of a pair's table
MARKS = {"PASSED": "✅", "FAILED": "❌", "INCONCLUSIVE": "⚠️"}
SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>!|~"} | {"&": "&amp;", "@": "@\u200b"})


def write(report: Report, path: str) -> None:
    """Writes the comment. Names are escaped, and mention nobody."""
    report = visible(report)
    lines = [f"## {MARKS[report.verdict]} qverify: {report.verdict}", ""]
    if report.blame is not None:
        lines += [
            f"**{_escape(report.blame.side)}** is to blame at **{_escape(report.blame.node)}**: {_escape(report.blame.why)}",
            "",
        ]
    for pair in report.pairs:
        lines += _table(pair)
    lines += ["<details><summary>All verdicts and notes</summary>", ""]
    lines += [f"- {_escape(line)}" for line in summary_lines(report)]
    write_report("\n".join([*lines, "", "</details>", ""]), path)


def _table(pair: Pair) -> list[str]:
    rows = [row for row in pair.tensors if row.verdict != "PASSED"]
    if not rows:
        return []
    place = f" ({_escape(pair.board)})" if pair.board else ""
    head = [f"### {pair.a} ~ {pair.b}{place}: {len(rows)} of {len(pair.tensors)} tensors", ""]
    head += ["| tensor | op | verdict | differ | largest difference | recomputed |", "|---|---|---|---|---|---|"]
    more = [f"| ... {len(rows) - MOST} more | | | | | |"] if len(rows) > MOST else []
    return [*head, *map(_row, rows[:MOST]), *more, ""]


def _row(row: TensorRow) -> str:
    largest, failing = row.metrics.get("max_abs"), "" if row.failing is None else f"{row.failing} of {row.elements}"
    number = f"{largest:.4g}" if isinstance(largest, (int, float)) else ""
    forced = row.forced.verdict if row.forced is not None else ""
    return f"| {_escape(row.name)} | {_escape(row.op)} | {row.verdict} | {failing} | {number} | {forced} |"


def _escape(text: str) -> str:
    return text.translate(SPECIAL)
