"""A figure as SVG: colours are attributes, which a page's style may replace by the class of the same name."""

from __future__ import annotations

from html import escape
from itertools import groupby

from qverify.renderers.drawings.shapes import COLOURS, LEVELS, Cells, Figure, Line, Rectangle, Shape, Words

NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'


def draw(figure: Figure) -> str:
    """Returns the svg element for a page, which names the figure by its label, and has its size without a style, too."""
    return _svg(figure, _size(figure), "".join(map(_shape, figure.shapes)))


def document(figure: Figure) -> str:
    """Returns a file of its own, on white paper."""
    paper = f'<rect width="{figure.width:.0f}" height="{figure.height:.0f}" fill="#fff"/>'
    font = ' font-family="sans-serif" font-size="12"'
    return _svg(figure, NAMESPACE + _size(figure) + font, paper + "\n".join(map(_shape, figure.shapes))) + "\n"


def _size(figure: Figure) -> str:
    return f' width="{figure.width:.0f}" height="{figure.height:.0f}"'


def _svg(figure: Figure, more: str, inside: str) -> str:
    box = f"0 0 {figure.width:.0f} {figure.height:.0f}"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(figure.label)}"{more}>{inside}</svg>'


def _shape(shape: Shape) -> str:
    if isinstance(shape, Words):
        anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
        place = f'x="{_n(shape.x)}" y="{_n(shape.y)}"'
        return f'<text {place}{anchor} fill="{COLOURS["quiet"]}">{escape(shape.text)}</text>'
    if isinstance(shape, Cells):
        return _cells(shape)
    if isinstance(shape, Line):
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
        dashed = ' stroke-dasharray="4 3"' if shape.dashed else ""
        stroke = f'fill="none" stroke="{COLOURS[shape.paint]}" class="s-{shape.paint}"'
        return f'<polyline points="{points}" {stroke}{dashed}/>'
    return _box(shape)


def _box(box: Rectangle) -> str:
    place = f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'
    opacity = f' fill-opacity="{box.opacity:.2g}"' if box.opacity < 1 else ""
    fill = f'fill="{COLOURS[box.paint]}" class="f-{box.paint}"{opacity}'
    return f"<rect {place} {fill}>{f'<title>{escape(box.title)}</title>' if box.title else ''}</rect>"


def _cells(cells: Cells) -> str:
    """Returns a path for each shade: runs of cells as lines one unit thick."""
    height, width = cells.shades.shape
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(cells.shades.tolist()):
        x = 0
        for shade, run in groupby(row):
            length = len(list(run))
            if shade:
                paths.setdefault(shade, []).append(f"M{x} {y}h{length}")
            x += length
    scale = f"translate({_n(cells.x)} {_n(cells.y)}) scale({cells.width / width:.4g} {cells.height / height:.4g}) translate(0 .5)"
    drawn = "".join(
        f'<path stroke-opacity="{level / LEVELS:.3g}" d="{"".join(paths[level])}"/>' for level in sorted(paths)
    )
    paint = f'stroke="{COLOURS[cells.paint]}" class="s-{cells.paint}"'
    return f'<g transform="{scale}" fill="none" {paint} shape-rendering="crispEdges">{drawn}</g>'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
