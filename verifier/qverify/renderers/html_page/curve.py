"""Draws the error along the network (SQNR, LSB or cosine), free-running and recomputed, as SVG. The points are
links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from qverify.arithmetic.functions64 import log2_of, log10_of
from qverify.renderers.html_page.elements import element, number, text
from qverify.report.document import Forced, Pair, TensorRow

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 260, 74, 20, 20
COLOURS = {"passed": "#116329", "failed": "#b3261e", "inconclusive": "#7a4b00", "plain": "#57606a"}
GRID, LINE, AGAIN = "#c9d1d9", "#57606a", "#0b57a4"
METRICS = ("sqnr_db", "max_lsb", "cosine")
WORDS = "up is better, the uppermost line is equality"
FREE = " Circles and the solid line: free-running."
RECOMPUTED = " Squares and the broken line: recomputed from the recorded inputs; a ring marks what fails there."


@dataclass(frozen=True, slots=True)
class Scale:
    """One metric of the curve. label: name of the metric in words. place: returns the height of a value, from 0 (worst)
    to 1 (at the upper end, as for equality). marks: values with a grid line, and their labels."""

    name: str
    metric: str
    label: str
    place: Callable[[float], float]
    marks: tuple[tuple[float, str], ...]


def _place_ratio(value: float) -> float:
    return min(max(value, 0.0), 96.0) / 100


def _place_lsb(value: float) -> float:
    return 1 - min(log2_of(1 + abs(value)), 16.0) / 16


def _place_cosine(value: float) -> float:
    return min(max(-log10_of(max(1 - value, 1e-9)), 0.0), 8.5) / 9


SCALES = (
    Scale(
        "SQNR",
        "sqnr_db",
        "signal to noise ratio in dB",
        _place_ratio,
        tuple((db, f"{db} dB") for db in range(0, 81, 20)),
    ),
    Scale(
        "LSB",
        "max_lsb",
        "largest difference in LSB",
        _place_lsb,
        tuple((lsb, f"{lsb}") for lsb in (1, 3, 15, 255, 65535)),
    ),
    Scale(
        "cosine",
        "cosine",
        "cosine, by its nines",
        _place_cosine,
        tuple((cosine, f"{cosine}") for cosine in (0.0, 0.9, 0.99, 0.9999, 0.999999)),
    ),
)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One tensor of a curve.

    Attributes:
        name: name of the tensor.
        facts: further facts in words.
        link: target of a click.
        kind: passed, failed, inconclusive or plain.
        free, recomputed: free-running and recomputed values by metric; inf if both sides are equal.
        ring: True if the tensor fails when it is recomputed.
    """

    name: str
    facts: str
    link: str
    kind: str = "plain"
    free: Mapping[str, float] = field(default_factory=dict)
    recomputed: Mapping[str, float] = field(default_factory=dict)
    ring: bool = False


def draw(pair: Pair, anchor: str) -> str:
    """Returns the figures of a pair. anchor: prefix of the ids of the tensors' rows in the table."""
    curve_points = [_curve_point(row, f"#{anchor}{index}") for index, row in enumerate(pair.tensors)]
    return figures(curve_points, f"{pair.a} ~ {pair.b}", f"{anchor}curve")


def figures(curve_points: Sequence[CurvePoint], what: str, group: str) -> str:
    """Returns a figure for each metric that has values; the first one is open. what: name of the comparison. group: a
    name that is unique on the page."""
    drawn = [(scale, _figure(curve_points, scale, what)) for scale in SCALES]
    shown = [(scale, figure) for scale, figure in drawn if figure]
    folded = [
        element(
            "details",
            element("summary", f"error along the network: {text(scale.name)}"),
            figure,
            name=group,
            open=index == 0,
            class_="curves",
        )
        for index, (scale, figure) in enumerate(shown)
    ]
    return (_choice() if any(point.recomputed for point in curve_points) else "") + "".join(folded)


def _choice() -> str:
    """Returns the check boxes that select which of the two lines is drawn. A script makes them visible."""
    labels = [
        element(
            "label",
            element("input", type="checkbox", checked=True, class_=f"show-{kind}").removesuffix("</input>"),
            f" {name}",
        )
        for kind, name in (("free", "free-running"), ("again", "recomputed"))
    ]
    return element("p", *labels, class_="tools", hidden=True)


def _curve_point(row: TensorRow, link: str) -> CurvePoint:
    again = _recomputed(row.forced, row) if row.forced is not None else {}
    ring = row.forced is not None and row.forced.verdict == "FAILED"
    return CurvePoint(row.name, f"{row.op}, {row.verdict}", link, row.verdict.lower(), _free(row), again, ring)


def _free(row: TensorRow) -> dict[str, float]:
    values = {name: row.metrics.get(name) for name in METRICS}
    numbers = {n: float(v) for n, v in values.items() if isinstance(v, (int, float)) and not math.isnan(v)}
    if row.bit_equal or row.metrics.get("max_abs") == 0:
        numbers = dict.fromkeys(_metrics_of(row), math.inf)
    return numbers


def _recomputed(forced: Forced, row: TensorRow) -> dict[str, float]:
    if forced.mismatched == 0:
        return dict.fromkeys(_metrics_of(row), math.inf)
    values = {"sqnr_db": forced.sqnr_db, "max_lsb": forced.max_lsb, "cosine": forced.cosine}
    return {n: float(v) for n, v in values.items() if v is not None and not math.isnan(v)}


def _metrics_of(row: TensorRow) -> list[str]:
    """Returns the metrics of a tensor; floats have no LSB."""
    return [name for name in METRICS if name != "max_lsb" or not row.dtype.startswith(("float", "bfloat"))]


def _figure(curve_points: Sequence[CurvePoint], scale: Scale, what: str) -> str:
    if not any(scale.metric in point.free or scale.metric in point.recomputed for point in curve_points):
        return ""
    distance, column_width = (
        (WIDTH - LEFT - 24) / max(1, len(curve_points) - 1),
        (WIDTH - LEFT - 12) / max(1, len(curve_points)),
    )
    places = [LEFT + 12 + distance * at for at in range(len(curve_points))]
    drawn = [*_grid(scale)]
    drawn += [_line(places, [point.free.get(scale.metric) for point in curve_points], scale, "free")]
    drawn += [_line(places, [point.recomputed.get(scale.metric) for point in curve_points], scale, "again")]
    points = [_point(point, x, column_width, scale) for point, x in zip(curve_points, places, strict=True)]
    drawn.append(element("g", *points, fill="none", pointer_events="all"))
    label = f"{scale.label} of {len(curve_points)} tensors in running order, {what}; arrow keys go from one to the next"
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "width": WIDTH, "height": HEIGHT}
    svg = element("svg", *drawn, role="group", aria_label=label, class_="curve", **size)
    again = any(scale.metric in point.recomputed for point in curve_points)
    caption = f"{text(what)}: {scale.label}, in running order; {WORDS}." + (FREE + RECOMPUTED if again else "")
    return element("figure", element("div", svg, class_="wide"), element("figcaption", caption))


def _y(value: float, scale: Scale) -> float:
    height = 1.0 if value == math.inf else 0.0 if value == -math.inf else scale.place(value)
    return TOP + (1 - height) * (HEIGHT - TOP - BOTTOM)


def _grid(scale: Scale) -> list[str]:
    lines = []
    for value, name in (*scale.marks, (math.inf, "equal")):
        y = _y(value, scale)
        lines.append(element("line", x1=LEFT, x2=WIDTH - 12, y1=f"{y:.1f}", y2=f"{y:.1f}", stroke=GRID, class_="grid"))
        words = {"text_anchor": "end", "font_size": 11, "fill": LINE, "class_": "scale"}
        lines.append(element("text", name, x=LEFT - 8, y=f"{y + 4:.1f}", **words))
    return lines


def _line(places: Sequence[float], values: Sequence[float | None], scale: Scale, kind: str) -> str:
    known = [f"{x:.1f},{_y(v, scale):.1f}" for x, v in zip(places, values, strict=True) if v is not None]
    if len(known) < 2:
        return ""
    dashes, colour = ("5 4", AGAIN) if kind == "again" else (None, LINE)
    style = {"fill": "none", "stroke": colour, "stroke_width": "1.5", "stroke_dasharray": dashes}
    return element("polyline", points=" ".join(known), class_=f"line {kind}", **style)


def _point(point: CurvePoint, place: float, column_width: float, scale: Scale) -> str:
    """Returns the link of a tensor: the column that reacts to a click, its square, ring and circle."""
    shapes = [
        element(
            "rect", x=f"{place - column_width / 2:.1f}", width=f"{column_width:.1f}", height=HEIGHT, class_="column"
        )
    ]
    free, again = point.free.get(scale.metric), point.recomputed.get(scale.metric)
    x = f"{place:.1f}"
    if again is not None:
        y = _y(again, scale)
        square = f"M{place - 3:.1f} {y - 3:.1f}h6v6h-6z"
        shapes.append(element("path", d=square, fill=AGAIN, class_="again"))
        ring = {"fill": "none", "stroke": COLOURS["failed"], "stroke_width": 2, "class_": "ring"}
        shapes += [element("circle", cx=x, cy=f"{y:.1f}", r=9, **ring)] if point.ring else []
    if free is not None:
        dot = {"r": 4, "fill": COLOURS[point.kind], "class_": f"dot {point.kind}"}
        shapes.append(element("circle", cx=x, cy=f"{_y(free, scale):.1f}", **dot))
    values = [f"{scale.name} {_shown(free, scale)}"] + (
        [f"recomputed {_shown(again, scale)}"] if again is not None else []
    )
    title = element("title", text(f"{point.name}: {point.facts}, {', '.join(values)}"))
    return element("a", title, *shapes, href=point.link)


def _shown(value: float | None, scale: Scale) -> str:
    if value is None or value == math.inf:
        return "not known" if value is None else "equal"
    return f"{value:.9g}" if scale.metric == "cosine" else number(value)
