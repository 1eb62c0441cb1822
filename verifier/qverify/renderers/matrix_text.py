"""Renders a matrix for a terminal: tables as wide as it, then the first change of each row and of each column."""

from __future__ import annotations

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.columns import Column, natural_width
from qverify.renderers.columns import render as table
from qverify.renderers.matrix_rows import (
    LEGEND,
    describe_change,
    describe_facts,
    describe_task,
    headline,
    list_changes,
    mark_of,
    verdict_of,
)
from qverify.renderers.seconds import describe_seconds
from qverify.renderers.text_view import TextView
from qverify.report.matrix.document import MatrixCell, MatrixColumn, MatrixDocument

MAX_ROWS, MAX_CHANGES, MAX_UNREADABLE = 60, 20, 10  # unless all are requested
MIN_NAME, MAX_NAME = 12, 40  # characters of the rows' names
COLOURS = {"same": "PASSED", "changed": "FAILED", "not known": "INCONCLUSIVE"}
PLAIN = TextView()


def render(matrix: MatrixDocument, view: TextView = PLAIN) -> str:
    """Returns the whole text; the last line is the result."""
    matrix = visible(matrix)
    last = view.paint(headline(matrix), COLOURS[matrix.verdicts])
    if view.detail == "quiet":
        return last
    parts = [
        *_tables(matrix, view),
        view.wrap(LEGEND) if matrix.cells else "",
        view.wrap("\n".join(_changes(matrix, view))),
        view.wrap("\n".join(_column_changes(matrix, view))),
        view.wrap("\n".join(_unreadable(matrix, view))),
        view.wrap("\n".join(matrix.notes)),
    ]
    return "\n\n".join([*(part for part in parts if part), last])


def _tables(matrix: MatrixDocument, view: TextView) -> list[str]:
    """Returns the table, in as many parts as the columns need."""
    shown = len(matrix.rows) if view.every else MAX_ROWS
    cells = {(cell.row, cell.column): cell for cell in matrix.cells}
    names = Column(", ".join(matrix.rows_by), [row.name for row in matrix.rows[:shown]], name=True)
    room = view.columns - min(max(len(names), MIN_NAME), MAX_NAME)
    parts: list[list[Column]] = [[]]
    for at, column in enumerate(matrix.columns):
        one = _column(column, [cells.get((row, at)) for row in range(len(names.texts))], view)
        if parts[-1] and natural_width([*parts[-1], one]) + 2 > room:
            parts.append([])
        parts[-1].append(one)
    more = f"... {count(len(matrix.rows) - shown, 'more row')} (--all)" if len(matrix.rows) > shown else ""
    return ["\n".join(filter(None, (_table([names, *part], view), more))) for part in parts if part]


def _table(columns: list[Column], view: TextView) -> str:
    """Returns a table whose columns are all shown, also those that are equal in every row."""
    marked = [Column(c.head, [*c.texts, f"{at}"], c.short, c.right, c.name, c.rank) for at, c in enumerate(columns)]
    return "\n".join(table(marked, view).split("\n")[:-1]) if len(columns[0].texts) > 1 else table(columns, view)


def _column(column: MatrixColumn, cells: list[MatrixCell | None], view: TextView) -> Column:
    head = column.name if len(column.name) <= MAX_NAME else f"{column.name[: MAX_NAME - 3]}..."
    return Column(head, [_cell(cell, view) for cell in cells])


def _cell(cell: MatrixCell | None, view: TextView) -> str:
    if cell is None:
        return "-"
    texts = [f"{verdict_of(cell)}{mark_of(cell)}"]
    if cell.worst is not None and cell.worst.max_abs is not None:
        texts.append(f"{cell.worst.max_abs:.2g}")
    if view.detail == "verbose":
        texts += [describe_seconds(cell.seconds)] if cell.seconds is not None else []
        texts += [describe_task(task) for task in cell.tasks]
    return " ".join(texts)


def _changes(matrix: MatrixDocument, view: TextView) -> list[str]:
    changed = list_changes(matrix)
    shown = changed if view.every else changed[:MAX_CHANGES]
    lines = [describe_change(matrix, cell, None if view.every else 6) for cell in shown]
    more = [f"... {count(len(changed) - len(shown), 'more row')} changed (--all)"] if len(changed) > len(shown) else []
    return ["first change of each row:", *(f"  {line}" for line in lines), *more] if changed else []


def _column_changes(matrix: MatrixDocument, view: TextView) -> list[str]:
    """Returns a line for each column in which something changed, with what differs in the stacks of every row."""
    lines = list[str]()
    for column in matrix.columns:
        if column.differs or column.stack or (view.every and column.partly):
            changed = f"{count(column.changed, 'verdict')} changed, {count(column.differs, 'row', 'differs', 'differ')}"
            facts = f"; in every row: {describe_facts(column.stack, None if view.every else 6)}" if column.stack else ""
            some = f"; in some: {describe_facts(column.partly, None if view.every else 3)}" if column.partly else ""
            lines.append(f"  {column.name}: {changed}{facts}{some}")
    return ["from the column before:", *lines] if lines else []


def _unreadable(matrix: MatrixDocument, view: TextView) -> list[str]:
    rows = matrix.unreadable if view.every else matrix.unreadable[:MAX_UNREADABLE]
    more = len(matrix.unreadable) - len(rows)
    return [f"not readable: {row.why}" for row in rows] + ([f"... {more} more not readable (--all)"] if more else [])
