"""A comment for a merge request: the verdict, the blame, a table of what differs, and the rest folded away."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers.difference_rows import DifferenceRow, difference_rows, headline, shown
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.report.difference import Difference
from qverify.report.document import Pair, Report, TensorRow

SUFFIX = ".md"
MOST = 20  # rows of a pair's table
MARKS = {"PASSED": "✅", "FAILED": "❌", "INCONCLUSIVE": "⚠️"}
SIGNS = {"same": "✅", "better": "✅", "worse": "❌", "not known": "⚠️"}
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


def write_difference(found: Difference, path: str) -> None:
    """Writes the comment: the result, verdicts and blame, the tensors that changed, and the rest folded away."""
    found = visible(found)
    rows = difference_rows(found)
    first, rest = ("verdict", "blame"), ("only", "time", "fact")
    lines = [f"## {SIGNS[found.change]} qverify report diff: {found.change}", "", _escape(headline(found)), ""]
    lines += _changes([row for row in rows if row.kind in first])
    lines += _changes([row for row in rows if row.kind not in (*first, *rest)])
    lines += ["<details><summary>Times, options, hashes, tensors of one run only</summary>", ""]
    lines += _changes([row for row in rows if row.kind in rest])
    write_report("\n".join([*lines, "</details>", ""]), path)


def _changes(rows: list[DifferenceRow]) -> list[str]:
    if not rows:
        return []
    lines = ["| pair | tensor | what | a | b | change |", "|---|---|---|---|---|---|"]
    for row in rows[: 5 * MOST]:
        place = f" ({row.board})" if row.board else ""
        place += f" frame {row.frame}" if row.frame else ""
        cells = (f"{row.pair}{place}", row.tensor, row.what, shown(row.before), shown(row.now), row.direction)
        lines.append(f"| {' | '.join(map(_escape, cells))} |")
    return [*lines, *([f"| ... {len(rows) - 5 * MOST} more | | | | | |"] if len(rows) > 5 * MOST else []), ""]


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
