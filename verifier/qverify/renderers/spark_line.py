"""Draws the number of matching decimals along the network as one line of block characters."""

from __future__ import annotations

from qverify.renderers.tensor_table import name_pair
from qverify.renderers.text_view import TextView, cells
from qverify.report.document import Pair, ReportDocument, TensorRow

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"  # from few to many decimals; the last one: equal
UNKNOWN = "?"
MIN_LENGTH = 8  # characters; the legend is dropped if it leaves less room


def draw(report: ReportDocument, view: TextView) -> str:
    """Returns the line, or "" if no pair differs. It shows the last pair that does not pass, or else the last pair,
    which is simulator against board. If there is no room for all tensors, each character stands for several ones and
    shows the fewest decimals."""
    differing = [pair for pair in report.pairs if any(_value(row) is not None for row in pair.tensors)]
    if not differing:
        return ""
    pair = next((p for p in reversed(differing) if p.verdict != "PASSED"), differing[-1])
    marks = BLOCKS if view.blocks else ASCII
    most = max(int(report.decimals.get("digits", 0)), 1)
    before = f"matching digits, {name_pair(pair)}: "
    after = f"  {marks[-1]} equal {marks[-2]} {most}+ {marks[0]} 0"
    if view.columns - cells(before) - cells(after) < MIN_LENGTH:
        before, after = before.removeprefix("matching "), ""
    room = max(view.columns - cells(before) - cells(after), 1)
    return f"{before}{_line(pair, room, most, marks)}{after}"


def _line(pair: Pair, room: int, most: int, marks: str) -> str:
    levels = [_level(row, most) for row in pair.tensors]
    size = -(-len(levels) // room)
    return "".join(
        UNKNOWN if None in part else marks[min(level for level in part if level is not None)]
        for part in (levels[start : start + size] for start in range(0, len(levels), size))
    )


def _value(row: TensorRow) -> int | str | None:
    """Returns the number of matching decimals, None for equal values, or "" if it is not known."""
    if "matching_digits" not in row.metrics:
        return None if row.bit_equal else ""
    digits = row.metrics["matching_digits"]
    return digits if digits is None or isinstance(digits, int) else ""


def _level(row: TensorRow, most: int) -> int | None:
    """Returns the index of the character, or None if the number of decimals is not known."""
    digits = _value(row)
    if isinstance(digits, str):
        return None
    highest = len(BLOCKS) - 1
    return highest if digits is None else round((highest - 1) * min(max(digits, 0), most) / most)
