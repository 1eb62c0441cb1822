"""Makes HTML elements from names and numbers. All texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

SHAPES = ("circle", "line", "path", "polyline", "rect")  # elements of SVG that have no end tag
MARKS = {"PASSED": "✓", "FAILED": "✗", "INCONCLUSIVE": "?"}


def element(tag: str, *inside: str, **attributes: object) -> str:
    """Returns an element. inside: HTML. attributes: values are escaped; in names, a trailing _ is removed and any other
    _ is replaced by -; an attribute with the value False or None is left out."""
    shown = "".join(
        _attribute(name, value) for name, value in attributes.items() if value is not None and value is not False
    )
    return f"<{tag}{shown}/>" if tag in SHAPES and not inside else f"<{tag}{shown}>{''.join(inside)}</{tag}>"


def _attribute(name: str, value: object) -> str:
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{escape(str(value))}"'


def text(value: object) -> str:
    """Returns the value as escaped text."""
    return escape(str(value))


def number(value: object) -> str:
    """Returns a number with four digits, or "" for None."""
    if value is None or isinstance(value, dict):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else text(value)


def verdict(value: str) -> str:
    """Returns a verdict with sign, word and colour."""
    return element("span", f"{MARKS.get(value, '')} {text(value)}", class_=f"verdict {value.lower()}")


def listed(lines: Iterable[str]) -> str:
    """Returns texts as a list, or "" if there are none."""
    items = [element("li", text(line)) for line in lines]
    return element("ul", *items) if items else ""


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Returns a list of names and values (HTML)."""
    return element("dl", *(element("dt", text(name)) + element("dd", value) for name, value in rows))


def table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]], heading: int | None = 0) -> str:
    """Returns a table. caption, heads: text. rows: cells as HTML. heading: index of the column that names the rows, or
    None. A table that is too wide gets its own scroll bar."""
    head = element("tr", *(element("th", text(name), scope="col") for name in heads))
    body = [_cells(cells, heading) for cells in rows]
    shown = element("table", element("caption", text(caption)), element("thead", head), element("tbody", *body))
    return element("div", shown, class_="wide", tabindex=0, role="group", aria_label=caption)


def _cells(cells: Iterable[str], heading: int | None) -> str:
    return element(
        "tr",
        *(element("th", cell, scope="row") if at == heading else element("td", cell) for at, cell in enumerate(cells)),
    )


def code(value: object) -> str:
    """Returns a name of a model or a shell in a code element."""
    return element("code", text(value))
