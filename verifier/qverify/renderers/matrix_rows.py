"""The cells of a matrix as rows of one table, and its result in words, on which all formats of `qverify report matrix` are
based."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from qverify.plural import count
from qverify.report.difference import FactChange
from qverify.report.document import TaskNumbers
from qverify.report.matrix.document import MatrixCell, MatrixDocument

NO_VERDICT = "NO VERDICT"
NO_RUN = ""
NUMBERS = ("max_abs", "max_lsb", "cosine", "sqnr_db", "mismatched", "elements")
COLUMNS = (
    *(
        "row",
        "column",
        "verdict",
        "change",
        "changed_from",
        "differs",
        "blame",
        "why",
        "equal_bytes",
        "tensor",
        "node",
        "op",
    ),
    *NUMBERS,
    *("tensors", "differing", "gate", "seconds", "tasks", "runs", "disagree", "caveats", "date", "source"),
)
VERDICTS = ("FAILED", NO_VERDICT, "INCONCLUSIVE", "PASSED")
LEGEND = "* verdict changed from the column before; + blame or numbers did; ! runs of the cell disagree; - no run"
Value = str | int | float | bool | None


def verdict_of(cell: MatrixCell) -> str:
    return cell.verdict or NO_VERDICT


def mark_of(cell: MatrixCell) -> str:
    """Returns the mark of a change: * of the verdict, + of blame or numbers, "" of none; and ! if runs of the cell disagree."""
    mark = "" if cell.change is None else "*" if cell.change.kind == "verdict" else "+"
    return mark + ("!" if cell.disagree else "")


def matrix_rows(matrix: MatrixDocument) -> list[dict[str, Value]]:
    """Returns a row for each cell with a run: the facts of its row and column, and COLUMNS."""
    return [_row(matrix, cell) for cell in matrix.cells]


def fact_columns(matrix: MatrixDocument) -> list[str]:
    """Returns the names of the facts that rows and columns are made of."""
    return [*matrix.rows_by, *matrix.columns_by]


def _row(matrix: MatrixDocument, cell: MatrixCell) -> dict[str, Value]:
    row, column, worst, change = matrix.rows[cell.row], matrix.columns[cell.column], cell.worst, cell.change
    values: dict[str, Value] = {
        "row": row.name,
        "column": column.name,
        "verdict": verdict_of(cell),
        "change": "" if change is None else change.kind,
        "changed_from": "" if change is None else matrix.columns[change.before_column].name,
        "differs": "" if change is None else describe_facts(change.facts),
        "blame": cell.blame,
        "why": cell.why,
        "equal_bytes": cell.equal,
        "gate": cell.gate,
        "seconds": cell.seconds,
        "tasks": "; ".join(describe_task(task) for task in cell.tasks),
        "runs": cell.runs,
        "disagree": "; ".join(cell.disagree),
        "caveats": "; ".join(cell.caveats),
        "date": cell.date,
        "source": cell.source,
    }
    if worst is not None:
        values |= {"tensor": worst.tensor, "node": worst.node, "op": worst.op}
        values |= {"tensors": worst.tensors, "differing": worst.differing}
        values |= {name: getattr(worst, name) for name in NUMBERS}
    return {**row.facts, **column.facts, **{name: values.get(name) for name in COLUMNS}}


def describe_facts(changes: Sequence[FactChange], most: int | None = None) -> str:
    """Returns what differs between two stacks in one line; "nothing else" if nothing does. most: number of facts to name."""
    named = [f"{change.what} {_shown(change.before)} -> {_shown(change.now)}" for change in changes[:most]]
    more = len(changes) - len(named)
    return "; ".join([*named, *([f"and {more} more"] if more else [])]) or "nothing else in their stacks"


def _shown(value: str | None) -> str:
    if value is None:
        return "none"
    is_hash = len(value) == 64 and all(c in "0123456789abcdef" for c in value)
    return value[:12] if is_hash else value or '""'


def describe_task(task: TaskNumbers) -> str:
    """Returns the task numbers of every side in one line."""
    sides = (
        f"{side.side} {', '.join(f'{name} {value:.6g}' for name, value in side.values.items()) or 'none'}"
        for side in task.sides
    )
    return f"{task.metric}: {'; '.join(sides)}"


def list_changes(matrix: MatrixDocument) -> list[MatrixCell]:
    """Returns the cell in which each row changed first (its verdict, or else anything), in the order of the rows."""
    first = {(at, row.changed if row.changed is not None else row.differs) for at, row in enumerate(matrix.rows)}
    return [cell for cell in matrix.cells if (cell.row, cell.column) in first]


def describe_change(matrix: MatrixDocument, cell: MatrixCell, most: int | None = 6) -> str:
    """Returns the change of a cell in one line: row, from which column to which, the outcomes, and what differs."""
    change = cell.change
    assert change is not None
    place = f"{matrix.rows[cell.row].name}: {matrix.columns[change.before_column].name} -> {matrix.columns[cell.column].name}"
    excluded = f"; not the cause: {describe_facts(change.excluded, most)}" if change.excluded else ""
    return f"{place}: {change.kind} changed: {change.before} -> {change.now}; differs: {describe_facts(change.facts, most)}{excluded}"


def headline(matrix: MatrixDocument) -> str:
    """Returns the result in one line: whether verdicts changed, the size of the matrix, and the number of each verdict."""
    counts = Counter(map(verdict_of, matrix.cells))
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    size = f"{count(len(matrix.rows), 'row')} by {count(len(matrix.columns), 'column')}, {count(matrix.runs, 'run')}"
    unread = f"{count(len(matrix.unreadable), 'file')} not readable" if matrix.unreadable else ""
    return (
        f"report matrix {matrix.verdicts.upper()} ({'; '.join(t for t in (matrix.why, size, verdicts, unread) if t)})"
    )
