"""Renders the times of a model's nodes on a board, for people."""

from __future__ import annotations

import statistics

from tabulate import tabulate

from qverify.plural import count
from qverify.printable import visible
from qverify.report.perf import NodeTimes, Perf

BAR = 20  # characters of the whole


def render(perf: Perf, top: int | None) -> str:
    """Returns a table of the nodes in running order, or of the `top` slowest, slowest first, and the totals."""
    perf = visible(perf)
    whole = sum(n.median_s for n in perf.nodes) or 1.0
    shown = list(perf.nodes)
    if top is not None:
        shown = sorted(shown, key=lambda n: -n.median_s)[:top]
    head = ["node", "op", "median", "lowest", "highest", "share", ""]
    table = tabulate(
        [_row(n, whole) for n in shown],
        head,
        disable_numparse=True,
        colalign=("left", "left", "right", "right", "right", "right", "left"),
    )
    return "\n".join([table, "", *_totals(perf, len(shown))])


def _row(times: NodeTimes, whole: float) -> list[str]:
    share = times.median_s / whole
    spread = (_time(min(times.seconds)), _time(max(times.seconds)))
    return [times.name, times.op, _time(times.median_s), *spread, f"{share:.1%}", "#" * round(BAR * share)]


def _totals(perf: Perf, shown: int) -> list[str]:
    left = len(perf.nodes) - shown
    return [
        *([f"{count(left, 'node')} not shown"] if left else []),
        f"all nodes: median {_time(statistics.median(perf.totals))}, lowest {_time(min(perf.totals))}, highest {_time(max(perf.totals))}, "
        f"over {count(len(perf.totals), 'run')} after {perf.warm_up} to warm up",
        f"model and inputs sent in {_time(perf.sent_s)}; first run, with loading, {_time(perf.first_run_s)}; "
        f"a later run, with the link, {_time(perf.wall_s)}",
        "times only: nothing was compared",
    ]


def _time(seconds: float) -> str:
    return (
        f"{seconds:.2f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.2f} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.1f} us"
    )
