"""Draws how many decimals match along the network as one line of block characters."""

from __future__ import annotations

from qverify.renderers.tensor_table import name_pair
from qverify.renderers.text_view import TextView, cells
from qverify.report.document import Pair, Report, TensorRow

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"  # of few to many decimals; the last is for equal values
UNKNOWN = "?"
FEWEST = 8  # characters, before the legend goes


def draw(report: Report, view: TextView) -> str:
    """Returns the line, "" where no pair differs. Of several pairs, one that does not pass, then the last one: simulator
    against board. Where there are more tensors than room, a character stands for several and shows the fewest decimals."""
    differing = [pair for pair in report.pairs if any(_value(row) is not None for row in pair.tensors)]
    if not differing:
        return ""
    pair = next((p for p in reversed(differing) if p.verdict != "PASSED"), differing[-1])
    marks = BLOCKS if view.blocks else ASCII
    most = max(int(report.decimals.get("digits", 0)), 1)
    before = f"matching digits, {name_pair(pair)}: "
    after = f"  {marks[-1]} equal {marks[-2]} {most}+ {marks[0]} 0"
    if view.columns - cells(before) - cells(after) < FEWEST:
        before, after = before.removeprefix("matching "), ""
    room = max(view.columns - cells(before) - cells(after), 1)
    return f"{before}{_line(pair, room, most, marks)}{after}"


def _line(pair: Pair, room: int, most: int, marks: str) -> str:
    levels = [_level(row, most) for row in pair.tensors]
    size = -(-len(levels) // room)
    return "".join(
        UNKNOWN if None in part else marks[min(one for one in part if one is not None)]
        for part in (levels[at : at + size] for at in range(0, len(levels), size))
    )


def _value(row: TensorRow) -> int | str | None:
    """Returns the matching decimals, None for equal values, "" where they are not known."""
    if "matching_digits" not in row.metrics:
        return None if row.bit_equal else ""
    digits = row.metrics["matching_digits"]
    return digits if digits is None or isinstance(digits, int) else ""


def _level(row: TensorRow, most: int) -> int | None:
    """Returns the index of the mark, None where it is not known."""
    digits = _value(row)
    if isinstance(digits, str):
        return None
    highest = len(BLOCKS) - 1
    return highest if digits is None else round((highest - 1) * min(max(digits, 0), most) / most)
