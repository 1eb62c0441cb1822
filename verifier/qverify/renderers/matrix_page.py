"""Renders a matrix as an HTML page: the table, where each row changed first, what differs from column to column, and each cell's run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qverify.plural import count
from qverify.renderers.html_page.elements import code, element, facts, listed, text, verdict
from qverify.renderers.html_page.elements import table as table_of
from qverify.renderers.html_page.frame import Section, page
from qverify.renderers.html_page.page import when
from qverify.renderers.matrix_rows import describe_facts, describe_task, headline, list_changes, verdict_of
from qverify.renderers.seconds import describe_seconds
from qverify.report.difference import FactChange
from qverify.report.matrix.document import MatrixCell, MatrixColumn, MatrixDocument, MatrixRow, WorstTensor

KINDS = {"same": "passed", "changed": "failed", "not known": "inconclusive"}
SIGNS = {"same": "✓", "changed": "✗", "not known": "?"}
CHANGED = {"verdict": "verdict changed", "blame": "blame changed", "numbers": "numbers changed"}
MAX_CELLS, MAX_OPEN, MAX_FACTS = (
    6000,
    30,
    12,
)  # cells of the page; rows of a list, and facts of a line, that are not folded
NO_RUN = "–"


def render(matrix: MatrixDocument) -> str:
    """Returns the page. matrix: all its texts must be printable."""
    sections = [
        Section("matrix", "Matrix", matrix_table(matrix)),
        Section("changes", "Where each row changed first", _changes(matrix)),
        Section("columns", "From column to column", _columns(matrix)),
        Section("unreadable", "Not readable", listed(f"{row.source}: {row.why}" for row in matrix.unreadable)),
        Section("notes", "Notes", listed(matrix.notes)),
        Section("again", "The command that repeats it", _command(matrix.command)),
    ]
    if len(matrix.rows) > MAX_OPEN:  # what changed comes before a long table
        sections.insert(2, sections.pop(0))
    return page(f"qverify report matrix: {matrix.verdicts}", _top(matrix), sections)


def _top(matrix: MatrixDocument) -> str:
    sign = element(
        "span", text(f"{SIGNS[matrix.verdicts]} {matrix.verdicts}"), class_=f"verdict {KINDS[matrix.verdicts]}"
    )
    kind = {"same": " good", "changed": ""}.get(matrix.verdicts, " quiet")
    return element(
        "header",
        element("h1", element("span", "qverify report matrix ", class_="brand"), sign),
        element("p", text(headline(matrix)), class_=f"blame{kind}"),
    )


def matrix_table(matrix: MatrixDocument) -> str:
    """Returns the table of cells, with a box that hides the rows in which nothing changed; "" without any."""
    if not matrix.cells:
        return ""
    shown = max(1, MAX_CELLS // max(1, len(matrix.columns)))
    rows = (
        sorted(range(len(matrix.rows)), key=lambda at: (matrix.rows[at].differs is None, at))
        if len(matrix.rows) > shown
        else range(len(matrix.rows))
    )
    cells = {(cell.row, cell.column): cell for cell in matrix.cells}
    head = element(
        "tr",
        element("th", text(", ".join(matrix.rows_by)), scope="col"),
        *(element("th", _head(column), scope="col") for column in matrix.columns),
    )
    body = [_row(matrix, at, cells) for at in rows[:shown]]
    caption = f"{', '.join(matrix.rows_by)} by {', '.join(matrix.columns_by)}; open a cell for its run and what differs from the column before"
    table = element(
        "table",
        element("caption", text(caption)),
        element("thead", head),
        element("tbody", *body),
        class_="matrix",
    )
    more = len(matrix.rows) - shown
    rest = (
        element(
            "p",
            text(
                f"{count(more, 'more row')}, in which nothing changed or the page has no room; --csv and --json have all."
            ),
        )
        if more > 0
        else ""
    )
    box = element("input", type="checkbox", class_="only-changed").removesuffix("</input>")
    tools = element("p", element("label", box, " only rows in which something changed"), class_="matrix-tools")
    return element(
        "div",
        tools,
        element("div", table, class_="wide", tabindex=0, role="group", aria_label="matrix"),
        rest,
        class_="matrix-part",
    )


def _head(column: MatrixColumn) -> str:
    texts = [f"{count(column.changed, 'verdict')} changed"] if column.changed else []
    texts += [f"{column.differs - column.changed} otherwise"] if column.differs > column.changed else []
    return text(column.name) + (element("span", text(", ".join(texts)), class_="changed") if texts else "")


def _row(matrix: MatrixDocument, at: int, cells: Mapping[tuple[int, int], MatrixCell]) -> str:
    row = matrix.rows[at]
    of_row = [cells.get((at, number)) for number in range(len(matrix.columns))]
    head = element("th", text(row.name), _row_mark(matrix, row), scope="row")
    return element(
        "tr", head, *(_cell(matrix, cell) for cell in of_row), class_=None if row.differs is not None else "same"
    )


def _row_mark(matrix: MatrixDocument, row: MatrixRow) -> str:
    at = row.changed if row.changed is not None else row.differs
    what = "verdict changed at" if row.changed is not None else "differs from"
    return element("span", text(f"{what} {matrix.columns[at].name}"), class_="changed") if at is not None else ""


def _cell(matrix: MatrixDocument, cell: MatrixCell | None) -> str:
    if cell is None:
        return element(
            "td",
            element("span", NO_RUN, aria_hidden="true"),
            element("span", "no run", class_="unseen"),
            class_="empty",
        )
    shown = verdict_of(cell)
    texts = [element("span", text(CHANGED[cell.change.kind]), class_="changed")] if cell.change is not None else []
    texts += [element("span", text(_distance(cell.worst)), class_="number")] if cell.worst is not None else []
    texts += (
        [element("span", text(f"{cell.runs} runs{' disagree' if cell.disagree else ''}"), class_="number")]
        if cell.runs > 1
        else []
    )
    kind = "inconclusive" if cell.verdict is None else shown.lower()
    summary = element("summary", verdict(shown), *texts)
    return element(
        "td", element("details", summary, _details(matrix, cell)), class_=f"{kind}{' moved' if cell.change else ''}"
    )


def _distance(worst: WorstTensor) -> str:
    return f"{worst.max_abs:.3g}" if worst.max_abs is not None else f"{worst.differing} tensors differ"


def _details(matrix: MatrixDocument, cell: MatrixCell) -> str:
    rows: list[tuple[str, str]] = []
    if (change := cell.change) is not None:
        before = matrix.columns[change.before_column].name
        rows.append((f"since {before}", text(f"{change.before} → {change.now}")))
        rows.append(("differs", _facts(change.facts)))
        rows += [("differs, not the cause", _facts(change.excluded))] if change.excluded else []
    rows += [("blame", text(cell.blame))] if cell.blame else []
    rows += [("why", text(cell.why))] if cell.why else []
    rows += _worst(cell.worst) if cell.worst is not None else [("tensors", "equal bytes")] if cell.equal else []
    rows += [("task", text(describe_task(task))) for task in cell.tasks]
    rows += [("gate", text(cell.gate))] if cell.gate else []
    rows += [("time", text(describe_seconds(cell.seconds)))] if cell.seconds is not None else []
    rows += [("other runs", text(line)) for line in cell.disagree]
    rows += [("caveats", text("; ".join(cell.caveats)))] if cell.caveats else []
    source = element("a", text(cell.source), href=cell.link) if cell.link else code(cell.source)
    rows += [("date", text(when(cell.date))), ("from", source)]
    return facts(rows)


def _worst(worst: WorstTensor) -> list[tuple[str, str]]:
    numbers = {
        "max_abs": worst.max_abs,
        "LSB": worst.max_lsb,
        "cosine": worst.cosine,
        "SQNR dB": worst.sqnr_db,
        "elements that differ": worst.mismatched,
    }
    shown = ", ".join(f"{name} {value:.6g}" for name, value in numbers.items() if value is not None)
    name = f"{code(worst.tensor)} {text(f'({worst.op}), {worst.pair}: {shown}')}"
    return [("worst tensor", name), ("tensors", text(f"{worst.differing} of {worst.tensors} differ"))]


def _facts(changes: Sequence[FactChange]) -> str:
    if not changes:
        return text(describe_facts(changes))
    shown = listed(describe_facts([change]) for change in changes[:MAX_FACTS])
    more = len(changes) - MAX_FACTS
    return shown + (element("p", text(f"and {more} more")) if more > 0 else "")


def _changes(matrix: MatrixDocument) -> str:
    cells = list_changes(matrix)
    if not cells:
        return element("p", "No row changed.")
    rows = [_change(matrix, cell) for cell in cells]
    heads = ("row", "at", "changed", "before", "now", "what differs in the stacks")
    whole = table_of("the first change of each row", heads, rows[:MAX_OPEN])
    if len(rows) <= MAX_OPEN:
        return whole
    rest = table_of("the other rows", heads, rows[MAX_OPEN : MAX_CELLS // 4])
    return whole + element("details", element("summary", text(count(len(rows) - MAX_OPEN, "more row"))), rest)


def _change(matrix: MatrixDocument, cell: MatrixCell) -> list[str]:
    change = cell.change
    assert change is not None
    place = f"{matrix.columns[change.before_column].name} → {matrix.columns[cell.column].name}"
    return [
        text(matrix.rows[cell.row].name),
        text(place),
        text(change.kind),
        text(change.before),
        text(change.now),
        _facts(change.facts),
    ]


def _columns(matrix: MatrixDocument) -> str:
    rows = [
        [
            text(column.name),
            text(column.changed),
            text(column.differs),
            _facts(column.stack) if column.stack else "",
            _facts(column.partly) if column.partly else "",
        ]
        for column in matrix.columns
        if column.differs or column.stack or column.partly
    ]
    heads = ("column", "verdicts changed", "rows that differ", "differs in every row", "differs in some")
    return table_of("what changed from the column before", heads, rows[: MAX_OPEN * 4]) if rows else ""


def _command(command: str) -> str:
    return element("pre", code(command), tabindex=0, aria_label="command") if command else ""
