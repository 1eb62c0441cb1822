"""Draws the shapes of the diagrams. Colours are CSS variables that the site sets for light and dark; a diagram opened
by itself follows the system's setting."""

from __future__ import annotations

import html

STYLE = """<style>
.qv-diagram{--qv-ink:#1f2933;--qv-soft:#52606d;--qv-line:#9aa5b1;--qv-box:#eef2f6;--qv-mark:#00796b;--qv-page:#fff;font:13px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.qv-diagram{--qv-ink:#e4e7eb;--qv-soft:#9aa5b1;--qv-line:#616e7c;--qv-box:#323f4b;--qv-mark:#4db6ac;--qv-page:#1e2129}}
.qv-diagram text{fill:var(--qv-ink)}.qv-diagram .soft{fill:var(--qv-soft);font-size:12px;paint-order:stroke;stroke:var(--qv-page);stroke-width:4px}
.qv-diagram .box{fill:var(--qv-box);stroke:var(--qv-line)}.qv-diagram .marked{stroke:var(--qv-mark);stroke-width:2}
.qv-diagram .line{stroke:var(--qv-line);fill:none}.qv-diagram .arrow{stroke:var(--qv-ink);fill:none}.qv-diagram .head{fill:var(--qv-ink)}
</style>"""


def document(width: int, height: int, title: str, parts: list[str]) -> str:
    """Returns a whole SVG file, ending with a newline."""
    start = f'<svg class="qv-diagram" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">'
    return "\n".join([start, STYLE, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Returns a text whose position is its start, middle or end, according to `anchor`."""
    kinds = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kinds}>{html.escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, words: str, kind: str = "box") -> str:
    """Returns a rounded box with its text in the middle."""
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'
    return shape + text(x + width / 2, y + height / 2 + 4.5, words, anchor="middle")


def line(x1: float, y1: float, x2: float, y2: float, dashed: bool = False) -> str:
    """Returns a straight line."""
    dashes = ' stroke-dasharray="3 4"' if dashed else ""
    return f'<path class="line" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"{dashes}/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """Returns an arrow from the first point to the second, horizontal or vertical."""
    if x1 == x2:
        back = -8 if y2 > y1 else 8
        head = f"M{x2:g} {y2:g}L{x2 - 4:g} {y2 + back:g}L{x2 + 4:g} {y2 + back:g}Z"
    else:
        back = -8 if x2 > x1 else 8
        head = f"M{x2:g} {y2:g}L{x2 + back:g} {y2 - 4:g}L{x2 + back:g} {y2 + 4:g}Z"
    return f'<path class="arrow" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/><path class="head" d="{head}"/>'
