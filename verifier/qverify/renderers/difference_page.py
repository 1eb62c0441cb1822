"""Two runs beside each other as one page without scripts and requests."""

from __future__ import annotations

from collections.abc import Callable

from qverify.renderers.difference_rows import DifferenceRow, difference_rows, headline, shown
from qverify.renderers.html_page.elements import element, text
from qverify.report.difference import Difference

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:75rem;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}th,td{border:1px solid #8888;padding:.25rem .5rem;text-align:left;
white-space:nowrap}td.name{white-space:normal;overflow-wrap:anywhere;min-width:6rem}.worse{color:light-dark(#a40000,#ff9a92)}.better{color:light-dark(#0b5c20,#7fdb97)}
.scroll{overflow-x:auto}td.number{text-align:right;font-variant-numeric:tabular-nums}"""
PLACE: dict[str, Callable[[DifferenceRow], str]] = {
    "pair": lambda row: row.pair,
    "frame": lambda row: str(row.frame or ""),
    "board": lambda row: row.board,
    "tensor": lambda row: row.tensor,
}
SIGNS = {"worse": "✗ worse", "better": "✓ better", "not known": "? not known"}
SECTIONS = (
    ("Verdicts", ("verdict",)),
    ("Blame", ("blame",)),
    ("Tensors that changed", ("tensor", "metric")),
    ("Tensors of one run only", ("only",)),
    ("Times in seconds, of one run each", ("time",)),
    ("Models, inputs, options, versions", ("fact",)),
)


def render(found: Difference) -> str:
    """Returns the page. found: with printable texts."""
    rows = difference_rows(found)
    title = f"qverify report diff: {found.change}"
    head = element("title", text(title)) + element("style", STYLE)
    runs = [
        element("li", text(f"{name}: {run.source}, {run.verdict}, qverify {run.qverify}, {run.date}"))
        for name, run in (("a (before)", found.a), ("b (now)", found.b))
    ]
    body = element("h1", text(title)) + element("p", text(headline(found))) + element("ul", *runs)
    for name, kinds in SECTIONS:
        listed = [row for row in rows if row.kind in kinds]
        body += element("h2", text(name)) + (_table(name, listed) if listed else element("p", "None."))
    meta = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    meta += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    page = element("head", meta, head) + element("body", element("main", body))
    return f"<!doctype html>\n{element('html', page, lang='en')}\n"


def _table(name: str, rows: list[DifferenceRow]) -> str:
    """Returns the table, without columns that say nothing in any row."""
    heads = [head for head, value in PLACE.items() if any(value(row) for row in rows)]
    titles = [*heads, "what", "a", "b", *(["change"] if any(row.direction for row in rows) else [])]
    head = element("tr", *(element("th", text(title), scope="col") for title in titles))
    lines = [_row(row, heads, "change" in titles) for row in rows]
    table = element("table", element("thead", head), element("tbody", *lines), aria_label=name)
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)


def _row(row: DifferenceRow, heads: list[str], changes: bool) -> str:
    cells = [element("td", text(PLACE[head](row)), class_="name") for head in heads]
    cells.append(element("td", text(row.what), class_=None if heads else "name"))
    for value in (row.before, row.now):
        number = isinstance(value, (int, float))
        cells.append(element("td", text(shown(value)), class_="number" if number else "name"))
    way = element("td", text(SIGNS.get(row.direction, row.direction)), class_=row.direction.replace(" ", "-") or None)
    return element("tr", *cells, *([way] if changes else []))
