"""Draws a small graph in layers, from top to bottom, as SVG that needs no styles and scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qverify.renderers.html_page.elements import element, text
from qverify.renderers.shortened_names import shorten

WIDTH, HEIGHT, GAP, RISE, EDGE = 232, 64, 18, 38, 8
MAX_NAME_LENGTH = 30  # characters of a name that fit into a box
COLOURS = {"agrees": "#116329", "differs": "#7a4b00", "fails": "#b3261e", "unknown": "#57606a"}


@dataclass(frozen=True, slots=True)
class NodeBox:
    """A node of the drawing. title: full name and state, shown as a tooltip. lines: up to three lines of text; the
    first is the name. state: agrees, differs, fails or unknown, which determines the colour of its frame. link: target
    of a click. emphasised: True to draw a thicker frame."""

    title: str
    lines: Sequence[str]
    state: str = "unknown"
    link: str = ""
    emphasised: bool = False


@dataclass(slots=True)
class _Layers:
    """Rows of names. Names that are not boxes are bends of edges that pass a layer."""

    rows: list[list[str]]
    edges: list[tuple[str, str]]
    x: dict[str, float] = field(default_factory=dict)


def draw(boxes: Mapping[str, NodeBox], edges: Sequence[tuple[str, str]], label: str) -> str:
    """Returns the SVG. edges: names of two boxes, a tensor's maker and its reader, without cycles. label: description
    of the drawing."""
    layers = _arrange(_place(list(boxes), edges), boxes)
    wide = max((layers.x[n] + _width(n, boxes) for row in layers.rows for n in row), default=0.0) + EDGE
    high = len(layers.rows) * (HEIGHT + RISE) - RISE + 2 * EDGE
    level = {name: at for at, row in enumerate(layers.rows) for name in row}
    lines = [_edge(layers, level, boxes, a, b) for a, b in layers.edges]
    drawn = [_box(box, layers.x[name], _top(level[name])) for name, box in boxes.items()]
    size = {"width": f"{wide:.0f}", "height": f"{high:.0f}", "viewBox": f"0 0 {wide:.0f} {high:.0f}"}
    style = {"role": "group", "aria_label": label, "class_": "graph", "fill": "#1b1f24", "font_size": 12}
    return element("svg", *lines, *drawn, **style, **size)


def _place(names: list[str], edges: Sequence[tuple[str, str]]) -> _Layers:
    """Returns every name in the layer below its lowest maker. An edge that passes layers gets a bend in each."""
    makers: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        makers[b].append(a)
    level: dict[str, int] = {}
    for _ in names:  # at most as many rounds as the longest path has nodes
        before = dict(level)
        for name in names:
            level[name] = max((level.get(m, 0) + 1 for m in makers[name]), default=0)
        if level == before:
            break
    for name in names:  # a maker stands right above its first reader
        readers = [level[b] for a, b in edges if a == name]
        level[name] = max(level[name], min(readers) - 1) if readers else level[name]
    rows: list[list[str]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for name in names:
        rows[level[name]].append(name)
    joined = list[tuple[str, str]]()
    for number, (a, b) in enumerate(edges):
        last = a
        for at in range(level[a] + 1, level[b]):
            bend = f"\0{number}.{at}"  # cannot be the name of a box, since those are printable
            rows[at].append(bend)
            joined.append((last, bend))
            last = bend
        joined.append((last, b))
    return _Layers(rows, joined)


def _arrange(layers: _Layers, boxes: Mapping[str, NodeBox]) -> _Layers:
    """Sorts each layer by the mean position of connected nodes, and sets the left ends of nodes in centred layers."""
    for downward in (True, False, True):
        rows = layers.rows if downward else layers.rows[::-1]
        at: dict[str, float] = {}
        for row in rows:
            ends = {n: [at[a if downward else b] for a, b in layers.edges if n == (b if downward else a)] for n in row}
            middle = {n: sum(e) / len(e) if e else float(i) for i, (n, e) in enumerate(ends.items())}
            row.sort(key=lambda n: middle[n])
            at |= {n: float(i) for i, n in enumerate(row)}
    widths = [sum(_width(n, boxes) + GAP for n in row) - GAP for row in layers.rows]
    for row, width in zip(layers.rows, widths, strict=True):
        left = EDGE + (max(widths) - width) / 2
        for name in row:
            layers.x[name] = left
            left += _width(name, boxes) + GAP
    return layers


def _width(name: str, boxes: Mapping[str, NodeBox]) -> float:
    return WIDTH if name in boxes else 8


def _top(level: int) -> float:
    return EDGE + level * (HEIGHT + RISE)


def _edge(layers: _Layers, level: Mapping[str, int], boxes: Mapping[str, NodeBox], a: str, b: str) -> str:
    start, end = layers.x[a] + _width(a, boxes) / 2, layers.x[b] + _width(b, boxes) / 2
    top, bottom = _top(level[a]) + HEIGHT, _top(level[b])
    half = (top + bottom) / 2
    path = f"M{start:.0f} {top:.0f}C{start:.0f} {half:.0f} {end:.0f} {half:.0f} {end:.0f} {bottom:.0f}"
    path += "" if b in boxes else f"V{bottom + HEIGHT:.0f}"
    return element("path", d=path, fill="none", stroke="#8b949e", class_="edge")


def _box(box: NodeBox, x: float, y: float) -> str:
    corner = {"x": f"{x:.0f}", "y": f"{y:.0f}", "width": WIDTH, "height": HEIGHT, "rx": 6}
    paint = {"fill": "#fff", "stroke": COLOURS[box.state], "stroke_width": 3 if box.emphasised else None}
    drawn = [element("title", text(box.title)), element("rect", class_=f"box {box.state}", **corner, **paint)]
    for at, line in enumerate(box.lines):
        shown = text(shorten(line, MAX_NAME_LENGTH if at == 0 else MAX_NAME_LENGTH + 4))
        name = {"font_weight": "600", "class_": "name"} if at == 0 else {}
        drawn.append(element("text", shown, x=f"{x + 9:.0f}", y=f"{y + 19 + 18 * at:.0f}", **name))
    return element("a", *drawn, href=box.link) if box.link else element("g", *drawn, role="img", aria_label=box.title)
