"""Makes the figures of one drawn tensor: density, differences, maps of the differences, and values."""

from __future__ import annotations

from math import ceil

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.renderers.drawings.shapes import LEVELS, Cells, Figure, Line, Rectangle, Words
from qverify.report.drawings import Density, ErrorMap, ErrorMaps, TensorDrawing, ValueHistogram

FIGURE_WIDTH, HISTOGRAM_HEIGHT = 356, 220
MAP_SIDE = 160  # longer side of a map


def figures(drawing: TensorDrawing, a: str, b: str) -> list[Figure]:
    """Returns the figures of a tensor. a, b: the sides' names."""
    figures_of_tensor = [] if drawing.density is None else [density(drawing.density, a, b)]
    figures_of_tensor += [differences(drawing, a, b)] if drawing.differences else []
    figures_of_tensor += [maps(drawing.maps, drawing.unit, a, b)] if drawing.maps is not None else []
    return figures_of_tensor + ([values(drawing.values, a, b)] if drawing.values is not None else [])


def density(drawn: Density, a: str, b: str) -> Figure:
    """Returns the two-dimensional histogram of the values of a and b. Numbers of elements are drawn as logarithms."""
    total, on_diagonal = int(drawn.counts.sum()), int(np.trace(drawn.counts))
    share = f"{100 * on_diagonal / total:.4g} %" if total else "none"
    label = f"density of {a} against {b}: {share} of {total} elements in cells on the diagonal"
    caption = f"Density: {a} to the right, {b} upwards; the stronger, the more elements (logarithm); {share} in cells on the diagonal"
    figure, left, side = Figure(FIGURE_WIDTH, 262, label, caption), 64, 226
    figure.shapes.append(Line(((left, 10 + side), (left + side, 10)), "grid", dashed=True))
    figure.shapes.append(Cells(left, 10, side, side, _shades(functions64.log1p(drawn.counts[::-1])), "mark"))
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
    """Returns the shade of each cell: 0 for the value 0 only, LEVELS for the largest value and for inf."""
    finite = cells[np.isfinite(cells)]
    top = float(finite.max()) if finite.size else 0.0
    scaled = np.where(np.isfinite(cells), cells / top if top > 0 else 0.0, 1.0)
    return np.where(cells > 0, np.clip(np.ceil(scaled * LEVELS), 1, LEVELS), 0).astype(np.uint8)


def differences(drawn: TensorDrawing, a: str, b: str) -> Figure:
    """Returns the histogram of b - a for the elements that differ."""
    unit = drawn.unit or "real values"
    largest = max(drawn.differences, key=lambda pair: pair[1])
    share = f"{drawn.differing} of {drawn.elements} elements differ"
    label = f"differences {b} - {a} in {unit}: {share}; most often {largest[0]} ({largest[1]} elements)"
    rarer = f"; {drawn.others} elements with rarer differences are not drawn" if drawn.others else ""
    figure = Figure(FIGURE_WIDTH, HISTOGRAM_HEIGHT, label, f"Differences {b} - {a} in {unit}: {share}{rarer}")
    step = (FIGURE_WIDTH - 16) / max(len(drawn.differences), 9)
    label_step = ceil(len(drawn.differences) * max(len(name) + 1 for name, _ in drawn.differences) * 6.5 / FIGURE_WIDTH)
    for at, (name, number) in enumerate(drawn.differences):
        if number:
            bar_height, x = max(1.5, (HISTOGRAM_HEIGHT - 62) * number / largest[1]), 8 + at * step
            title = f"{name} {drawn.unit}: {number} elements"
            figure.shapes.append(
                Rectangle(x, HISTOGRAM_HEIGHT - 26 - bar_height, max(step - 2, 1), bar_height, "mark", title)
            )
            if len(drawn.differences) <= 9:
                figure.shapes.append(
                    Words(x + (step - 2) / 2, HISTOGRAM_HEIGHT - 32 - bar_height, str(number), "middle")
                )
        if at % label_step == 0:
            figure.shapes.append(Words(8 + (at + 0.5) * step - 1, HISTOGRAM_HEIGHT - 8, name, "middle"))
    figure.shapes.append(Line(((8, HISTOGRAM_HEIGHT - 26), (FIGURE_WIDTH - 8, HISTOGRAM_HEIGHT - 26)), "grid"))
    if len(drawn.differences) > 9:
        figure.shapes.append(Words(8, 14, f"highest bar: {largest[1]} elements, {largest[0]}"))
    return figure


def maps(drawn: ErrorMaps, unit: str, a: str, b: str) -> Figure:
    """Returns maps of where the tensor differs: over all channels, and in the channels that differ most."""
    height, width = drawn.plane
    scale = MAP_SIDE / max(height, width)
    wide, high = max(12.0, width * scale), max(12.0, height * scale)
    step = FIGURE_WIDTH / 2
    columns = 2 if len(drawn.maps) > 1 else 1
    rows = -(-len(drawn.maps) // columns)
    cell = drawn.maps[0].cells.shape
    scaled_text = "" if cell == (height, width) else f", the largest of each cell of {cell[0]} x {cell[1]}"
    channels = f" of {drawn.channels} channels; besides all, those with the largest sums" if drawn.channels > 1 else ""
    plane = f"the tensor in rows of {width}" if drawn.folded else f"height {height} x width {width}"
    top = drawn.maps[0]
    label = f"where {a} and {b} differ: {plane}{channels}; {_places(top)}; largest {_worst(top, unit)}"
    figure = Figure(
        FIGURE_WIDTH, rows * (high + 38) + 4, label, f"Where they differ, |a - b|: {plane}{scaled_text}{channels}"
    )
    for number, error_map in enumerate(drawn.maps):
        x, y = 1 + number % columns * step, 20 + number // columns * (high + 38)
        name = (
            "channel " + str(error_map.channel)
            if error_map.channel is not None
            else "all channels"
            if drawn.channels > 1
            else "all"
        )
        figure.shapes += [
            Words(x, y - 6, f"{name}: up to {_worst(error_map, unit)}"),
            Cells(x, y, wide, high, _shades(error_map.cells), "bad"),
        ]
        figure.frame(x, y, wide, high)
    return figure


def _places(error_map: ErrorMap) -> str:
    return f"{int(np.count_nonzero(error_map.cells))} of {error_map.cells.size} cells differ"


def _worst(error_map: ErrorMap, unit: str) -> str:
    largest = float(error_map.cells.max())
    return "not finite" if largest == np.inf else f"{_number(largest)} {unit}".strip()


def values(drawn: ValueHistogram, a: str, b: str) -> Figure:
    """Returns the histogram of both sides' values, with the range of the type and the number of elements clipped at its
    ends. Numbers of elements are drawn as logarithms."""
    low, high = (drawn.low, drawn.high) if drawn.quantized is None else drawn.quantized
    low, high = min(low, drawn.low), max(high, drawn.high)
    sides = f"{a} (filled) and {b} (line)" if drawn.b is not None else a
    label = f"values of {sides}: {_number(drawn.low)} to {_number(drawn.high)}"
    caption = f"Values of {sides}, elements as logarithm"
    if drawn.quantized is not None:
        caption += f"; dashed: the quantized range {_number(drawn.quantized[0])} to {_number(drawn.quantized[1])}"
        ends = [(a, drawn.clipped_a), (b, drawn.clipped_b if drawn.b is not None else None)]
        clipped = "; ".join(f"{n}: {c[0]} elements at its lower, {c[1]} at its upper end" for n, c in ends if c)
        label, caption = f"{label}; {clipped}", f"{caption}; {clipped}"
    figure, floor, plot_height = (
        Figure(FIGURE_WIDTH, HISTOGRAM_HEIGHT, label, caption),
        HISTOGRAM_HEIGHT - 26,
        HISTOGRAM_HEIGHT - 50,
    )
    left, width = 12.0, FIGURE_WIDTH - 24.0
    half = (high / 2 - low / 2) or 1.0  # half the range, since the whole range may exceed float64
    begin = left + (drawn.low / 2 - low / 2) / half * width
    bin_width = (drawn.high / 2 - drawn.low / 2) / half * width / len(drawn.a) or 4.0
    top = float(functions64.log1p(max(int(drawn.a.max()), 0 if drawn.b is None else int(drawn.b.max())))) or 1.0
    for at, number in enumerate(drawn.a.tolist()):
        if number:
            bar_height = plot_height * float(functions64.log1p(number)) / top
            title = (
                f"about {_number(drawn.low + (at + 0.5) * (drawn.high - drawn.low) / len(drawn.a))}: {number} elements"
            )
            figure.shapes.append(
                Rectangle(
                    begin + at * bin_width,
                    floor - bar_height,
                    max(bin_width - 0.6, 0.8),
                    bar_height,
                    "mark",
                    title,
                    0.55,
                )
            )
    if drawn.b is not None:
        points: list[tuple[float, float]] = []
        for at, number in enumerate(drawn.b.tolist()):
            y = floor - plot_height * float(functions64.log1p(number)) / top
            points += [(begin + at * bin_width, y), (begin + (at + 1) * bin_width, y)]
        figure.shapes.append(Line(tuple(points), "bad"))
    if drawn.quantized is not None:
        for end in drawn.quantized:
            x = left + (end / 2 - low / 2) / half * width
            figure.shapes.append(Line(((x, 14), (x, floor)), "quiet", dashed=True))
    figure.shapes += [
        Line(((left, floor), (left + width, floor)), "grid"),
        Words(left, HISTOGRAM_HEIGHT - 8, _number(low)),
        Words(left + width, HISTOGRAM_HEIGHT - 8, _number(high), "end"),
    ]
    return figure


def _number(value: float) -> str:
    return f"{value:.4g}"
