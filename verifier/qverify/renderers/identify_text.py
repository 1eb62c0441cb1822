"""Renders what `qverify identify` learned."""

from __future__ import annotations

from qverify.plural import count
from qverify.printable import printable
from qverify.renderers.columns import Column
from qverify.renderers.columns import render as render_table
from qverify.renderers.text_view import TextView
from qverify.report.learned import FreeRun, LearnedOp

MOST = 3  # names in a line


def render(ops: list[LearnedOp], free: FreeRun, nodes: tuple[int, int], view: TextView) -> str:
    """Returns the table of ops, a line on each op that is not certain, and how far a simulation gives the recording."""
    return "\n".join([_render_ops(ops, "nodes", view), *map(view.wrap, _totals(free, nodes))])


def render_probed(ops: list[LearnedOp], view: TextView) -> str:
    """Returns the table of ops that were asked by probes, and a line on each op that is not certain."""
    return _render_ops(ops, "probes", view).rstrip()


def _render_ops(ops: list[LearnedOp], nodes: str, view: TextView) -> str:
    columns = [
        Column("op", [o.op for o in ops]),
        Column("arithmetic", [o.form or "unknown" for o in ops]),
        Column(nodes, [str(o.nodes) for o in ops], right=True),
        Column("elements", [str(o.elements) for o in ops], right=True),
        Column("decided by", [str(o.decided) if o.form and o.decided is not None else "" for o in ops], right=True),
    ]
    lines = [view.wrap(line) for op in ops for line in _remarks(op)]
    return "\n".join([render_table(columns, view), "", *lines])


def _remarks(op: LearnedOp) -> list[str]:
    lines = list[str]()
    if op.why:
        lines.append(f"{op.op}: {printable(op.why)}")
    if op.alike:
        more = f" and {len(op.alike) - MOST} more" if len(op.alike) > MOST else ""
        lines.append(f"{op.op}: the same bytes here: {'; '.join(op.alike[:MOST])}{more}")
    if op.alike and op.ties is not None:
        lines.append(f"{op.op}: {_describe_ties(*op.ties)}")
    if op.form and op.against:
        lines.append(
            f"{op.op}: {count(op.decided or 0, 'element', 'contradicts', 'contradict')} the nearest other, {op.against}"
        )
    if not op.form and op.nearest is not None:
        n = op.nearest
        lines.append(
            f"{op.op}: nearest is {n.form}: all but {n.elements} of {n.of} elements near ties, first at {n.node}"
        )
    for node, forms in list(op.parts.items())[:MOST]:
        lines.append(f"{op.op}: {printable(node)}: {'; '.join(forms[:MOST])}")
    return lines


def _describe_ties(ties: int, negative: int) -> str:
    """Returns what the recording has of elements at ties, where rules for halves differ, and what would tell more."""
    if not ties:
        return "no element lies at a tie: scales that are powers of two make ties"
    if not negative:
        return f"{count(ties, 'element', 'lies', 'lie')} at a tie, none below the zero point: other inputs tell more"
    return f"{count(ties, 'element', 'lies', 'lie')} at a tie, {negative} below the zero point"


def _totals(free: FreeRun, nodes: tuple[int, int]) -> list[str]:
    lines = [f"compared: {nodes[1]} of {count(nodes[0], 'node')} with integers"]
    if free.compared:
        text = f"free-running under it: {free.equal} of {count(free.compared, 'tensor')} bit-equal"
        text += f", first that differs: {printable(free.first)}" if free.first else ""
        text += (
            f"; {count(len(free.unknown), 'tensor')} of ops that are not known, as the reference computes them"
            if free.unknown
            else ""
        )
        lines.append(text)
    if free.started:
        lines.append(f"taken from the recording: {', '.join(map(printable, free.started[:MOST]))}")
    return lines
