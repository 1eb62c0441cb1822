"""Renders a figure as SVG. Colours are attributes; a page's style sheet can replace them by the class of the same
name."""

from __future__ import annotations

from html import escape
from itertools import groupby

from qverify.renderers.drawings.shapes import COLOURS, LEVELS, Cells, Figure, Line, Rectangle, Shape, Words

NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'


def draw(figure: Figure) -> str:
    """Returns the svg element for a page. Its label describes the figure, and its size does not depend on a style
    sheet."""
    return _svg(figure, _size(figure), "".join(map(_shape, figure.shapes)))


def document(figure: Figure) -> str:
    """Returns the content of an SVG file, with a white background."""
    background = f'<rect width="{figure.width:.0f}" height="{figure.height:.0f}" fill="#fff"/>'
    font = ' font-family="sans-serif" font-size="12"'
    return _svg(figure, NAMESPACE + _size(figure) + font, background + "\n".join(map(_shape, figure.shapes))) + "\n"


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
    return _rectangle(shape)


def _rectangle(rectangle: Rectangle) -> str:
    place = f'x="{_n(rectangle.x)}" y="{_n(rectangle.y)}" width="{_n(rectangle.width)}" height="{_n(rectangle.height)}"'
    opacity = f' fill-opacity="{rectangle.opacity:.2g}"' if rectangle.opacity < 1 else ""
    fill = f'fill="{COLOURS[rectangle.paint]}" class="f-{rectangle.paint}"{opacity}'
    return f"<rect {place} {fill}>{f'<title>{escape(rectangle.title)}</title>' if rectangle.title else ''}</rect>"


def _cells(cells: Cells) -> str:
    """Returns a path for each shade, in which runs of cells are lines one unit thick."""
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
