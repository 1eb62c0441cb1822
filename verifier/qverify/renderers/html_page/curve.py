"""Error along the network: the signal to noise ratio of each tensor in running order, as SVG whose points are links."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.renderers.html_page.elements import element, number, text
from qverify.report.document import Pair, TensorRow

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 260, 56, 20, 34
BEST = 100.0  # dB at the upper end; equal tensors are drawn there
LINES = (0, 20, 40, 60, 80)


@dataclass(frozen=True)
class Point:
    """A tensor's point. db: None where the ratio is not known."""

    row: TensorRow
    x: float
    db: float | None


def draw(pair: Pair, anchor: str) -> str:
    """Returns the figure of a pair. anchor: the beginning of the ids of the tensors' rows in the table."""
    points = _points(pair.tensors)
    if not points:
        return ""
    parts = [*_grid(), _line(points), *(_dot(point, f"#{anchor}{at}") for at, point in enumerate(points))]
    label = f"signal to noise ratio of {len(points)} tensors in running order, {pair.a} against {pair.b}"
    drawn = element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)
    caption = (
        f"{text(pair.a)} ~ {text(pair.b)}: SQNR in dB, in running order. The uppermost line is equality. "
        "A ring marks a tensor that fails when it is recomputed from its recorded inputs."
    )
    return element("figure", element("div", drawn, class_="wide", tabindex=0), element("figcaption", caption))


def _points(rows: list[TensorRow]) -> list[Point]:
    step = (WIDTH - LEFT - 12) / max(1, len(rows) - 1)
    return [Point(row, LEFT + step * at, _db(row)) for at, row in enumerate(rows)]


def _db(row: TensorRow) -> float | None:
    """Returns the ratio within the drawing; equal tensors are at its upper end."""
    if row.bit_equal or row.metrics.get("max_abs") == 0:
        return BEST
    value = row.metrics.get("sqnr_db")
    if not isinstance(value, (int, float)) or value != value:
        return None
    return min(max(float(value), 0.0), BEST - 4)


def _y(db: float) -> float:
    return TOP + (BEST - db) / BEST * (HEIGHT - TOP - BOTTOM)


def _grid() -> list[str]:
    lines = []
    for db in (*LINES, int(BEST)):
        at, name = f"{_y(db):.1f}", "equal" if db == BEST else f"{db} dB"
        lines.append(element("line", x1=LEFT, x2=WIDTH - 12, y1=at, y2=at, class_="grid"))
        lines.append(element("text", name, x=LEFT - 8, y=f"{_y(db) + 4:.1f}", text_anchor="end", class_="scale"))
    return lines


def _line(points: list[Point]) -> str:
    drawn = " ".join(f"{p.x:.1f},{_y(p.db):.1f}" for p in points if p.db is not None)
    return element("polyline", points=drawn, class_="curve")


def _dot(point: Point, link: str) -> str:
    row, at = point.row, _y(point.db if point.db is not None else 0.0)
    title = (
        f"{text(row.name)}: {text(row.op)}, {text(row.verdict)}, SQNR {number(row.metrics.get('sqnr_db')) or 'equal'}"
    )
    shapes = [element("circle", cx=f"{point.x:.1f}", cy=f"{at:.1f}", r=4, class_=f"dot {row.verdict.lower()}")]
    if row.forced is not None and row.forced.verdict == "FAILED":
        shapes.append(element("circle", cx=f"{point.x:.1f}", cy=f"{at:.1f}", r=8, class_="ring"))
    return element("a", element("title", title), *shapes, href=link, aria_label=f"{row.name}, {row.verdict}")
