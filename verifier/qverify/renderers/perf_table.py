"""Renders the times of a model's nodes on a board as a table."""

from __future__ import annotations

import statistics

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.columns import Column
from qverify.renderers.columns import render as render_table
from qverify.renderers.seconds import describe_seconds
from qverify.renderers.text_view import TextView
from qverify.report.perf import Perf

BAR_LENGTH = 20  # characters of a bar of 100 %


def render(perf: Perf, top: int | None, view: TextView) -> str:
    """Returns a table of all nodes in running order, or of the `top` slowest nodes, and the totals."""
    perf = visible(perf)
    whole = sum(n.median_s for n in perf.nodes) or 1.0
    shown = list(perf.nodes)
    if top is not None:
        shown = sorted(shown, key=lambda n: -n.median_s)[:top]
    shares = [n.median_s / whole for n in shown]
    columns = [
        Column("node", [n.name for n in shown], name=True),
        Column("op", [n.op for n in shown], rank=2),
        Column("median", [describe_seconds(n.median_s) for n in shown], right=True),
        Column("lowest", [describe_seconds(min(n.seconds)) for n in shown], right=True, rank=4),
        Column("highest", [describe_seconds(max(n.seconds)) for n in shown], right=True, rank=3),
        Column("share", [f"{s:.1%}" for s in shares], right=True),
        Column("", ["#" * round(BAR_LENGTH * s) for s in shares], rank=1),
    ]
    return "\n".join([render_table(columns, view), "", *map(view.wrap, _totals(perf, len(shown)))])


def _totals(perf: Perf, shown: int) -> list[str]:
    left = len(perf.nodes) - shown
    return [
        *([f"{count(left, 'node')} not shown"] if left else []),
        f"all nodes: median {describe_seconds(statistics.median(perf.totals))}, lowest {describe_seconds(min(perf.totals))}, highest {describe_seconds(max(perf.totals))}, "
        f"over {count(len(perf.totals), 'run')} after {perf.warm_up} to warm up",
        f"model and inputs sent in {describe_seconds(perf.sent_s)}; first run, with loading, {describe_seconds(perf.first_run_s)}; "
        f"a later run, with the link, {describe_seconds(perf.wall_s)}",
        *perf.notes,
        "times only: nothing was compared",
    ]
