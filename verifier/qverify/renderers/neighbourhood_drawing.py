"""Draws the neighbourhood of a diverging tensor as text: inputs above it, its readers below."""

from __future__ import annotations

from qverify.plural import count
from qverify.report.triage_document import Neighbour, Neighbourhood

MARKS = {"agree": "=", "differ": "~", "fails forced": "X", "given": "=", "not known": "?"}
LEGEND = "= agrees   ~ differs   X fails when forced   ? not known"
MAX_SHOWN = 6  # neighbours on each side


def draw(around: Neighbourhood) -> str:
    """Returns a line with MARK NAME (OP) WHY for each tensor, connected by lines."""
    above, below = around.above[:MAX_SHOWN], around.below[:MAX_SHOWN]
    lines = [f"  {'┌' if number == 0 else '├'}─ {_mark_name(n)}" for number, n in enumerate(above)]
    unshown_inputs = len(around.above) - MAX_SHOWN
    lines += [f"  ├─ and {count(unshown_inputs, 'more input')}"] if unshown_inputs > 0 else []
    lines += ["  │"] if above else []
    lines.append(f"[{MARKS[around.at.mark]}] {_describe(around.at)}")
    lines += ["  │"] if below else []
    unshown_readers = len(around.below) - len(below)
    for number, neighbour in enumerate(below):
        lines.append(f"  {'└' if number == len(below) - 1 and not unshown_readers else '├'}─ {_mark_name(neighbour)}")
    lines += [f"  └─ and {count(unshown_readers, 'more reader')}"] if unshown_readers else []
    return "\n".join(lines)


def _mark_name(neighbour: Neighbour) -> str:
    return f"{MARKS[neighbour.mark]} {_describe(neighbour)}"


def _describe(neighbour: Neighbour) -> str:
    return f"{neighbour.tensor} ({neighbour.op})" + (f": {neighbour.why}" if neighbour.why else "")
