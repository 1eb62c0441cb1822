"""Renders the differences of two runs for a terminal."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers.columns import Column
from qverify.renderers.columns import render as table
from qverify.renderers.difference_rows import DifferenceRow, difference_rows, headline
from qverify.renderers.seconds import describe_seconds
from qverify.renderers.tensor_table import SHORT
from qverify.renderers.text_view import TextView
from qverify.report.difference import ReportDifference, TimeChange

MAX_ROWS = 20  # of a table, unless all are requested
MAX_TIMES = 5  # nodes with shown times
COLOURS = {"worse": "FAILED", "better": "PASSED", "not known": "INCONCLUSIVE", "same": "heading"}
PLAIN = TextView()


def render(difference: ReportDifference, view: TextView = PLAIN) -> str:
    """Returns the whole text; the last line is the result."""
    difference = visible(difference)
    last = view.paint(headline(difference), COLOURS[difference.change])
    if view.detail == "quiet":
        return last
    rows = difference_rows(difference)
    max_rows = None if view.every else MAX_ROWS
    parts = [
        "\n".join(
            f"{name}: {run.source}: {run.verdict}, qverify {run.qverify}, {run.date}"
            for name, run in (("a", difference.a), ("b", difference.b))
        ),
        view.wrap("\n".join(_line(r) for r in rows if r.kind in ("fact", "blame"))),
        view.wrap("\n".join(_line(r) for r in rows if r.kind == "verdict" and r.pair)),
        _table([r for r in rows if r.kind in ("tensor", "metric") and r.before != r.now], max_rows, view),
        view.wrap("\n".join(_line(r) for r in [r for r in rows if r.kind == "only"][:max_rows])),
        view.wrap("\n".join(_times(difference.times))),
    ]
    return "\n\n".join([*(part for part in parts if part), last])


def _line(row: DifferenceRow) -> str:
    who = f"frame {row.frame} " if row.frame else ""
    where = " ".join(text for text in (row.board, row.pair) if text)
    what = {"blame": f"blame of {row.what}", "verdict": "", "only": row.tensor}.get(row.kind, row.what)
    start = f"{who}{' '.join(text for text in (where, what) if text)}: "
    if row.kind == "only":
        return f"{start}{row.what} ({row.before or row.now})"
    way = f" ({row.direction})" if row.direction else ""
    return f"{start}{_short(row.before)} -> {_short(row.now)}{way}"


def _short(value: str | int | float | None) -> str:
    return (
        "none"
        if value is None
        else f"{value:.6g}"
        if isinstance(value, float)
        else value
        if isinstance(value, str)
        else str(value)
    )


def _table(rows: list[DifferenceRow], max_rows: int | None, view: TextView) -> str:
    if not rows:
        return ""
    listed = rows[:max_rows]
    columns = [
        Column("tensor", [r.tensor for r in listed], name=True),
        Column("pair", [r.pair for r in listed], ["pair", *(_shortened(r.pair) for r in listed)]),
        Column("frame", [str(r.frame or "") for r in listed], right=True, rank=2),
        Column("board", [r.board for r in listed], rank=3),
        Column("what", [r.what for r in listed]),
        Column("a", [_short(r.before) for r in listed], right=True),
        Column("b", [_short(r.now) for r in listed], right=True),
        Column("change", [r.direction for r in listed]),
    ]
    more = [f"... {len(rows) - len(listed)} more rows (--all)"] if len(rows) > len(listed) else []
    return "\n".join([table(columns, view), *more])


def _shortened(pair: str) -> str:
    a, tilde, b = pair.partition("~")
    return f"{SHORT.get(a, a)}{tilde}{SHORT.get(b, b)}"


def _times(times: list[TimeChange]) -> list[str]:
    """Returns lines on the time of all nodes together, and of the slowest nodes."""
    in_both = [
        (t.name, t.before, t.now) for t in times if t.of == "node" and t.before is not None and t.now is not None
    ]
    if not in_both:
        return []
    total_a, total_b = (sum(node[at] for node in in_both) for at in (1, 2))  # type: ignore[misc]
    lines = [
        f"time of {len(in_both)} nodes on the board, one run each: {describe_seconds(total_a)} -> {describe_seconds(total_b)}"
    ]
    longest = sorted(in_both, key=lambda node: -max(node[1], node[2]))[:MAX_TIMES]
    return lines + [f"  {name}: {describe_seconds(x)} -> {describe_seconds(y)}" for name, x, y in longest]
