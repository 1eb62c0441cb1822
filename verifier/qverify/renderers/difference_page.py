"""Renders the differences of two runs as an HTML page: the change on top, verdicts, blame, and each tensor with its
numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from qverify.plural import count
from qverify.renderers.difference_rows import DifferenceRow, difference_rows, headline, shown
from qverify.renderers.html_page.elements import code, element, text, verdict
from qverify.renderers.html_page.elements import table as table_of
from qverify.renderers.html_page.frame import Section, page
from qverify.renderers.html_page.page import when
from qverify.report.difference import ReportDifference

KINDS = {"worse": "failed", "better": "passed", "not known": "inconclusive"}
SIGNS = {"worse": "✗", "better": "✓", "not known": "?"}
MAX_OPEN, MAX_OPEN_TENSORS = 30, 12  # rows of a list, and tensors, in sight; the others are folded
LISTS = (  # id, title, caption, the rows' kind
    ("blame", "Blame", "the node to blame, by side", "blame"),
    ("only", "Tensors of one run only", "compared in one run only", "only"),
    ("times", "Times", "seconds, of one run each", "time"),
    ("facts", "Models, inputs, options, versions", "what was not the same", "fact"),
)


def render(difference: ReportDifference) -> str:
    """Returns the page. difference: all its texts must be printable."""
    rows = difference_rows(difference)
    sections = [Section("verdicts", "Verdicts", _verdicts([r for r in rows if r.kind == "verdict"]))]
    sections.append(Section("tensors", "Tensors that changed", _tensors(rows)))
    for name, title, caption, kind in LISTS:
        content = _list(caption, [row for row in rows if row.kind == kind], kind)
        sections.insert(1 if kind == "blame" else len(sections), Section(name, title, content))
    sections.append(Section("again", "The command that repeats it", _command(difference.command)))
    return page(f"qverify report diff: {difference.change}", _top(difference), sections)


def _top(difference: ReportDifference) -> str:
    runs = [
        element(
            "li",
            f"{element('strong', name)} {code(run.source)}: {verdict(run.verdict)}, ",
            text(f"{when(run.date)}, qverify {run.qverify}"),
        )
        for name, run in (("a, before:", difference.a), ("b, now:", difference.b))
    ]
    kind = {"failed": "", "passed": " good"}.get(KINDS.get(difference.change, "passed"), " quiet")
    return element(
        "header",
        element("h1", element("span", "qverify report diff ", class_="brand"), _change(difference.change)),
        element("p", text(headline(difference)), class_=f"blame{kind}"),
        element("ul", *runs, class_="lines"),
    )


def _change(direction: str) -> str:
    """Returns a direction with sign, word and colour, or "" for none."""
    words = text(f"{SIGNS.get(direction, '')} {direction}".strip())
    return element("span", words, class_=f"verdict {KINDS.get(direction, '')}".strip()) if direction else ""


def _value(value: str | int | float | None) -> str:
    return verdict(value) if value in ("PASSED", "FAILED", "INCONCLUSIVE") else text(shown(value))


def _place(row: DifferenceRow) -> str:
    """Returns frame and board of a row, if it has them."""
    return "".join((f", frame {row.frame}" if row.frame else "", f", {row.board}" if row.board else ""))


def _verdicts(rows: list[DifferenceRow]) -> str:
    """Returns the table of verdicts: of the run, and of each pair."""
    cells = [
        [_change(r.direction), text(f"{r.pair or r.what}{_place(r)}"), _value(r.before), _value(r.now)] for r in rows
    ]
    heads = ("change", "of", "a", "b")
    shown, more = cells[:MAX_OPEN], cells[MAX_OPEN:]
    rest = (
        _fold(f"{count(len(more), 'more verdict')}", table_of("more verdicts", heads, more, heading=1)) if more else ""
    )
    return table_of("verdicts of both runs", heads, shown, heading=1) + rest


def _tensors(rows: Iterable[DifferenceRow]) -> str:
    """Returns the table of tensors: a heading with the verdicts of each tensor, and its numbers below."""
    changed = [row for row in rows if row.kind in ("tensor", "metric")]
    if not changed:
        return element("p", "None.")
    bodies = [
        element("tbody", *map(_tensor_row, group))
        for _, group in groupby(changed, lambda row: (row.pair, row.frame, row.board, row.tensor))
    ]
    shown, more = bodies[:MAX_OPEN_TENSORS], bodies[MAX_OPEN_TENSORS:]
    rest = _fold(count(len(more), "more tensor"), _tensor_table("the other tensors", more)) if more else ""
    return _tensor_table("tensor by tensor, the worse ones first", shown) + rest


def _tensor_table(caption: str, bodies: list[str]) -> str:
    head = element("tr", *(element("th", name, scope="col") for name in ("change", "what", "a", "b")))
    inside = (element("caption", text(caption)), element("thead", head), *bodies)
    return _wide(element("table", *inside, class_="changes"), caption)


def _fold(summary: str, inside: str) -> str:
    return element("details", element("summary", text(summary)), inside)


def _tensor_row(row: DifferenceRow) -> str:
    change, values = element("td", _change(row.direction)), [element("td", _value(v)) for v in (row.before, row.now)]
    if row.kind == "metric":
        return element("tr", change, element("td", text(row.what)), *values)
    name = element("th", f"{code(row.tensor)} {text(row.pair + _place(row))}", scope="rowgroup")
    return element("tr", change, name, *values, class_="of")


def _list(caption: str, rows: list[DifferenceRow], kind: str) -> str:
    """Returns a table of changes, with tensor and pair for the kind `only`. Without any change, it is "", or "None."
    for blame."""
    if not rows:
        return element("p", "None.") if kind == "blame" else ""
    placed = kind == "only"
    cells = [
        [*([code(r.tensor), text(r.pair + _place(r))] if placed else []), text(r.what), _value(r.before), _value(r.now)]
        for r in rows
    ]
    whole = table_of(caption, (*(("tensor", "pair") if placed else ()), "what", "a", "b"), cells)
    return whole if len(cells) <= MAX_OPEN else _fold(f"{len(cells)}: {caption}", whole)


def _command(command: str) -> str:
    return element("pre", code(command), tabindex=0, aria_label="command") if command else ""


def _wide(table: str, name: str) -> str:
    return element("div", table, class_="wide", tabindex=0, role="group", aria_label=name)
