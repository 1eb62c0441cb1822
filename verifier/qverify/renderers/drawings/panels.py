"""The figures of one drawn tensor: density, differences, maps of where it differs, values."""

from __future__ import annotations

from math import ceil

import numpy as np
import numpy.typing as npt

from qverify.renderers.drawings.shapes import LEVELS, Cells, Figure, Line, Rectangle, Words
from qverify.report.drawings import Density, ErrorMap, ErrorMaps, TensorDrawing, ValueHistogram

WIDE, HIGH = 356, 220  # of a figure, of a histogram
MAP = 160  # the longer side of a map


def figures(drawing: TensorDrawing, a: str, b: str) -> list[Figure]:
    """Returns the figures of a tensor. a, b: the sides' names."""
    made = [] if drawing.density is None else [density(drawing.density, a, b)]
    made += [differences(drawing, a, b)] if drawing.differences else []
    made += [maps(drawing.maps, drawing.unit, a, b)] if drawing.maps is not None else []
    return made + ([values(drawing.values, a, b)] if drawing.values is not None else [])


def density(drawn: Density, a: str, b: str) -> Figure:
    """Returns how often values of a meet values of b, the number of elements as the logarithm."""
    total, on = int(drawn.counts.sum()), int(np.trace(drawn.counts))
    share = f"{100 * on / total:.4g} %" if total else "none"
    label = f"density of {a} against {b}: {share} of {total} elements in cells on the diagonal"
    caption = f"Density: {a} to the right, {b} upwards; the stronger, the more elements (logarithm); {share} in cells on the diagonal"
    figure, left, side = Figure(WIDE, 262, label, caption), 64, 226
    figure.shapes.append(Line(((left, 10 + side), (left + side, 10)), "grid", dashed=True))
    figure.shapes.append(Cells(left, 10, side, side, _shades(np.log1p(drawn.counts[::-1])), "mark"))
    figure.frame(left, 10, side, side)
    figure.shapes += [
        Words(left, 10 + side + 16, _number(drawn.low)),
        Words(left + side, 10 + side + 16, _number(drawn.high), "end"),
        Words(left + side / 2, 10 + side + 16, a, "middle"),
        Words(left - 6, 10 + side, _number(drawn.low), "end"),
        Words(left - 6, 20, _number(drawn.high), "end"),
        Words(left - 6, 14 + side / 2, b[:8], "end"),
    ]
    return figure


def _shades(cells: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Returns the shade of each cell: 0 only for 0, LEVELS for the largest and for inf."""
    finite = cells[np.isfinite(cells)]
    top = float(finite.max()) if finite.size else 0.0
    scaled = np.where(np.isfinite(cells), cells / top if top > 0 else 0.0, 1.0)
    return np.where(cells > 0, np.clip(np.ceil(scaled * LEVELS), 1, LEVELS), 0).astype(np.uint8)


def differences(drawn: TensorDrawing, a: str, b: str) -> Figure:
    """Returns the histogram of b - a, of the elements that differ."""
    unit = drawn.unit or "real values"
    largest = max(drawn.differences, key=lambda pair: pair[1])
    share = f"{drawn.differing} of {drawn.elements} elements differ"
    label = f"differences {b} - {a} in {unit}: {share}; most often {largest[0]} ({largest[1]} elements)"
    more = f"; {drawn.others} elements with rarer differences are not drawn" if drawn.others else ""
    figure = Figure(WIDE, HIGH, label, f"Differences {b} - {a} in {unit}: {share}{more}")
    step = (WIDE - 16) / max(len(drawn.differences), 9)
    every = ceil(len(drawn.differences) * max(len(name) + 1 for name, _ in drawn.differences) * 6.5 / WIDE)
    for at, (name, number) in enumerate(drawn.differences):
        if number:
            high, x = max(1.5, (HIGH - 62) * number / largest[1]), 8 + at * step
            title = f"{name} {drawn.unit}: {number} elements"
            figure.shapes.append(Rectangle(x, HIGH - 26 - high, max(step - 2, 1), high, "mark", title))
            if len(drawn.differences) <= 9:
                figure.shapes.append(Words(x + (step - 2) / 2, HIGH - 32 - high, str(number), "middle"))
        if at % every == 0:
            figure.shapes.append(Words(8 + (at + 0.5) * step - 1, HIGH - 8, name, "middle"))
    figure.shapes.append(Line(((8, HIGH - 26), (WIDE - 8, HIGH - 26)), "grid"))
    if len(drawn.differences) > 9:
        figure.shapes.append(Words(8, 14, f"highest bar: {largest[1]} elements, {largest[0]}"))
    return figure


def maps(drawn: ErrorMaps, unit: str, a: str, b: str) -> Figure:
    """Returns where the tensor differs: over all channels, and in those that differ most."""
    height, width = drawn.plane
    scale = MAP / max(height, width)
    wide, high = max(12.0, width * scale), max(12.0, height * scale)
    step = WIDE / 2
    columns = 2 if len(drawn.maps) > 1 else 1
    rows = -(-len(drawn.maps) // columns)
    cell = drawn.maps[0].cells.shape
    down = "" if cell == (height, width) else f", the largest of each cell of {cell[0]} x {cell[1]}"
    channels = f" of {drawn.channels} channels; besides all, those with the largest sums" if drawn.channels > 1 else ""
    plane = f"the tensor in rows of {width}" if drawn.folded else f"height {height} x width {width}"
    top = drawn.maps[0]
    label = f"where {a} and {b} differ: {plane}{channels}; {_places(top)}; largest {_worst(top, unit)}"
    figure = Figure(WIDE, rows * (high + 38) + 4, label, f"Where they differ, |a - b|: {plane}{down}{channels}")
    for at, one in enumerate(drawn.maps):
        x, y = 1 + at % columns * step, 20 + at // columns * (high + 38)
        name = (
            "channel " + str(one.channel)
            if one.channel is not None
            else "all channels"
            if drawn.channels > 1
            else "all"
        )
        figure.shapes += [
            Words(x, y - 6, f"{name}: up to {_worst(one, unit)}"),
            Cells(x, y, wide, high, _shades(one.cells), "bad"),
        ]
        figure.frame(x, y, wide, high)
    return figure


def _places(one: ErrorMap) -> str:
    return f"{int(np.count_nonzero(one.cells))} of {one.cells.size} cells differ"


def _worst(one: ErrorMap, unit: str) -> str:
    largest = float(one.cells.max())
    return "not finite" if largest == np.inf else f"{_number(largest)} {unit}".strip()


def values(drawn: ValueHistogram, a: str, b: str) -> Figure:
    """Returns the histogram of both sides' values, with the range that the type can hold and what is clipped at its
    ends. Numbers of elements are drawn as logarithms."""
    low, high = (drawn.low, drawn.high) if drawn.quantized is None else drawn.quantized
    low, high = min(low, drawn.low), max(high, drawn.high)
    both = f"{a} (filled) and {b} (line)" if drawn.b is not None else a
    label = f"values of {both}: {_number(drawn.low)} to {_number(drawn.high)}"
    caption = f"Values of {both}, elements as logarithm"
    if drawn.quantized is not None:
        caption += f"; dashed: the quantized range {_number(drawn.quantized[0])} to {_number(drawn.quantized[1])}"
        ends = [(a, drawn.clipped_a), (b, drawn.clipped_b if drawn.b is not None else None)]
        said = "; ".join(f"{n}: {c[0]} elements at its lower, {c[1]} at its upper end" for n, c in ends if c)
        label, caption = f"{label}; {said}", f"{caption}; {said}"
    figure, floor, room = Figure(WIDE, HIGH, label, caption), HIGH - 26, HIGH - 50
    left, width = 12.0, WIDE - 24.0
    half = (high / 2 - low / 2) or 1.0  # halves, as the whole range may be beyond float64
    begin = left + (drawn.low / 2 - low / 2) / half * width
    bin_width = (drawn.high / 2 - drawn.low / 2) / half * width / len(drawn.a) or 4.0
    top = float(np.log1p(max(int(drawn.a.max()), 0 if drawn.b is None else int(drawn.b.max())))) or 1.0
    for at, number in enumerate(drawn.a.tolist()):
        if number:
            tall = room * float(np.log1p(number)) / top
            title = (
                f"about {_number(drawn.low + (at + 0.5) * (drawn.high - drawn.low) / len(drawn.a))}: {number} elements"
            )
            figure.shapes.append(
                Rectangle(begin + at * bin_width, floor - tall, max(bin_width - 0.6, 0.8), tall, "mark", title, 0.55)
            )
    if drawn.b is not None:
        points: list[tuple[float, float]] = []
        for at, number in enumerate(drawn.b.tolist()):
            y = floor - room * float(np.log1p(number)) / top
            points += [(begin + at * bin_width, y), (begin + (at + 1) * bin_width, y)]
        figure.shapes.append(Line(tuple(points), "bad"))
    if drawn.quantized is not None:
        for end in drawn.quantized:
            x = left + (end / 2 - low / 2) / half * width
            figure.shapes.append(Line(((x, 14), (x, floor)), "quiet", dashed=True))
    figure.shapes += [
        Line(((left, floor), (left + width, floor)), "grid"),
        Words(left, HIGH - 8, _number(low)),
        Words(left + width, HIGH - 8, _number(high), "end"),
    ]
    return figure


def _number(value: float) -> str:
    return f"{value:.4g}"
