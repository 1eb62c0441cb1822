"""Figures: shapes on a plane, in pixels, with y downwards. Colours are names, which each renderer maps to values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

Paint = Literal["mark", "bad", "other", "grid", "quiet"]
COLOURS: dict[str, str] = {
    "mark": "#0b57a4",
    "bad": "#b3261e",
    "other": "#8a5a00",
    "grid": "#c9d1d9",
    "quiet": "#57606a",
}
LEVELS = 8  # shades of cells


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A filled rectangle. title: description, shown as a tooltip."""

    x: float
    y: float
    width: float
    height: float
    paint: Paint
    title: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Cells:
    """A grid of equal cells. shades: 0 (empty) .. LEVELS, [row, column]."""

    x: float
    y: float
    width: float
    height: float
    shades: npt.NDArray[np.uint8]
    paint: Paint


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, solid or dashed."""

    points: tuple[tuple[float, float], ...]
    paint: Paint
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text. y: its baseline."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"


Shape = Rectangle | Cells | Line | Words


@dataclass(slots=True)
class Figure:
    """A figure. label: description in words, for readers who cannot see it. caption: text below it."""

    width: float
    height: float
    label: str
    caption: str = ""
    shapes: list[Shape] = field(default_factory=list)

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        """Draws a rectangle's outline."""
        corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y))
        self.shapes.append(Line(corners, "grid"))


def moved(shape: Shape, x: float, y: float) -> Shape:
    """Returns the shape, moved by x and y."""
    if isinstance(shape, Line):
        return replace(shape, points=tuple((px + x, py + y) for px, py in shape.points))
    return replace(shape, x=shape.x + x, y=shape.y + y)


def sheet(title: str, figures: list[Figure], columns: int = 2, gap: float = 28) -> Figure:
    """Returns one figure that contains several, in columns below a title, each above its caption."""
    widest = max((f.width for f in figures), default=0)
    whole = Figure(columns * (widest + gap) + gap, 0, title)
    whole.shapes.append(Words(gap, 26, title))
    top = 44.0
    for start in range(0, len(figures), columns):
        row = figures[start : start + columns]
        for column, figure in enumerate(row):
            left = gap + column * (widest + gap)
            whole.shapes += [moved(shape, left, top) for shape in figure.shapes]
            caption_lines = _wrap_words(figure.caption, int(widest / 6.2))
            base = top + figure.height + 14
            whole.shapes += [Words(left, base + 15 * line, text) for line, text in enumerate(caption_lines)]
        top += max(f.height + 15 * len(_wrap_words(f.caption, int(widest / 6.2))) for f in row) + gap
    whole.height = top
    return whole


def _wrap_words(text: str, max_length: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > max_length and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines if lines[0] else []
