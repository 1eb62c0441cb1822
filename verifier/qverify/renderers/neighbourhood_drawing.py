"""Draws a piece of the graph as text: inputs above, the diverging tensor in the middle, its readers below."""

from __future__ import annotations

from qverify.plural import count
from qverify.report.triage_document import Neighbour, Neighbourhood

MARKS = {"agree": "=", "differ": "~", "fails forced": "X", "given": "=", "not known": "?"}
LEGEND = "= agrees   ~ differs   X fails when forced   ? not known"
SHOWN = 6


def draw(around: Neighbourhood) -> str:
    """Returns the lines: MARK NAME (OP) WHY for each tensor, joined by a stem."""
    above, below = around.above[:SHOWN], around.below[:SHOWN]
    lines = [f"  {'┌' if i == 0 else '├'}─ {_mark_name(n)}" for i, n in enumerate(above)]
    unshown = len(around.above) - SHOWN
    lines += [f"  ├─ and {count(unshown, 'more input')}"] if unshown > 0 else []
    lines += ["  │"] if above else []
    lines.append(f"[{MARKS[around.at.mark]}] {_describe(around.at)}")
    lines += ["  │"] if below else []
    rest = len(around.below) - len(below)
    for i, neighbour in enumerate(below):
        lines.append(f"  {'└' if i == len(below) - 1 and not rest else '├'}─ {_mark_name(neighbour)}")
    lines += [f"  └─ and {count(rest, 'more reader')}"] if rest else []
    return "\n".join(lines)


def _mark_name(neighbour: Neighbour) -> str:
    return f"{MARKS[neighbour.mark]} {_describe(neighbour)}"


def _describe(neighbour: Neighbour) -> str:
    return f"{neighbour.tensor} ({neighbour.op})" + (f": {neighbour.why}" if neighbour.why else "")
