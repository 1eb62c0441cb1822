"""One row for each compared tensor of each pair, for spreadsheets and scripts. Lines that begin with # contain facts
that belong to no tensor: verdicts, blame, missing tensors, notes."""

from __future__ import annotations

import csv
import io
import re

from qverify.printable import visible
from qverify.renderers.difference_rows import COLUMNS, difference_rows, headline
from qverify.renderers.matrix_rows import COLUMNS as MATRIX_COLUMNS
from qverify.renderers.matrix_rows import describe_change, fact_columns, list_changes, matrix_rows
from qverify.renderers.matrix_rows import headline as headline_of_matrix
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.tensor_rows import tensor_rows
from qverify.renderers.triage_text import render as render_triage
from qverify.report.difference import ReportDifference
from qverify.report.document import ReportDocument, plain
from qverify.report.matrix.document import MatrixDocument
from qverify.report.triage_document import Rung, TensorLoss, TriageDocument

SUFFIX = ".csv"
TEXT_COLUMNS = ("board", "tensor", "op", "dtype")  # their texts are untrusted
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # first characters of a spreadsheet's formula
WITHIN = re.compile(
    f"([,;\t])(?=[{''.join(FORMULA).replace('-', '')}-])"
)  # the same at the beginning of a cell within a line
CELL = r"\1'"
NUMBERS = ("-inf",)  # texts that begin in this way but are no formulas


def write(report: ReportDocument, path: str) -> None:
    """Writes the rows in running order, the pairs one after another."""
    report = visible(report)
    columns, table = tensor_rows(report)
    text = io.StringIO()
    text.writelines(map(_comment, summary_lines(report)))
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows([_cell_value(name, value) for name, value in zip(columns, row, strict=True)] for row in table)
    write_report(text.getvalue(), path)


def _cell_value(column: str, value: object) -> object:
    """Returns a value as it is written to the file; None becomes an empty cell."""
    if column in TEXT_COLUMNS:
        return _cell(str(value))
    return "" if value is None else int(value) if isinstance(value, bool) else value


TRIAGE_COLUMNS = (
    "row", "a", "b", "tensor", "op", "verdict", "gate", "elements", "max_abs", "cosine", "rmse", "sqnr_db", "drop_db",
    "clipped", "used", "step", "weights_sqnr_db", "single_output", "single_cosine", "why",
)  # fmt: skip


def write_triage(triage: TriageDocument, path: str) -> None:
    """Writes a row for each rung, for each of its outputs, and for the loss of each tensor; cells without a value are
    empty."""
    document = visible(triage)
    rows = [row for rung in document.rungs for row in _rung(rung)] + [_loss(row) for row in document.losses]
    text = io.StringIO()
    text.writelines(map(_comment, render_triage(document).splitlines()))
    table = csv.DictWriter(text, TRIAGE_COLUMNS, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(
        {name: v if v == "-inf" or not isinstance(v, str) else _cell(v) for name, v in row.items()} for row in rows
    )
    write_report(text.getvalue(), path)


def _rung(rung: Rung) -> list[dict[str, object]]:
    pair = {"a": rung.a, "b": rung.b}
    first: dict[str, object] = {
        "row": "rung",
        **pair,
        "verdict": rung.verdict,
        "gate": rung.gate,
        "why": rung.why,
    }
    names = ("elements", "max_abs", "cosine", "rmse", "sqnr_db")
    return [
        first,
        *(
            {
                "row": "output",
                **pair,
                "tensor": o.name,
                "why": o.judged,
                "verdict": "holds" if o.holds else "fails",
            }
            | {name: _plain(getattr(o, name)) for name in names}
            for o in rung.outputs
        ),
    ]


def _loss(row: TensorLoss) -> dict[str, object]:
    names = ("sqnr_db", "cosine", "rmse", "drop_db", "clipped", "used", "step", "weights_sqnr_db")
    cells = {"row": "loss", "tensor": row.tensor, "op": row.op} | {n: _plain(getattr(row, n)) for n in names}
    if row.single is not None:
        cells |= {"single_output": row.single.worst_output, "single_cosine": _plain(row.single.cosine)}
    return cells


def _plain(value: float | None) -> object:
    """Returns a number as in the JSON report, or "" for None."""
    return "" if value is None else plain(value)


def write_difference(difference: ReportDifference, path: str) -> None:
    """Writes a row for each change, the whole run first. A cell is empty if the value is absent in that run."""
    difference = visible(difference)
    text = io.StringIO()
    text.write(_comment(headline(difference)))
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for row in difference_rows(difference):
        values = (plain(getattr(row, name)) for name in COLUMNS)
        rows.writerow("" if v is None else _cell(v) if isinstance(v, str) else v for v in values)
    write_report(text.getvalue(), path)


def write_matrix(matrix: MatrixDocument, path: str) -> None:
    """Writes a row for each cell with a run: the facts of its row and column, then what it gave. Comments begin the file: the
    result, the changes, and what could not be read."""
    matrix = visible(matrix)
    text = io.StringIO()
    lines = [headline_of_matrix(matrix), *(describe_change(matrix, cell, None) for cell in list_changes(matrix))]
    text.writelines(map(_comment, [*lines, *(f"not readable: {row.why}" for row in matrix.unreadable), *matrix.notes]))
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(map(_cell, [*fact_columns(matrix), *MATRIX_COLUMNS]))
    for row in matrix_rows(matrix):
        values = (plain(row.get(name)) for name in (*fact_columns(matrix), *MATRIX_COLUMNS))
        rows.writerow("" if v is None else _cell(v) if isinstance(v, str) else v for v in values)
    write_report(text.getvalue(), path)


def _comment(line: str) -> str:
    """Returns a comment line, changed so that no cell into which a spreadsheet splits it is a formula."""
    return f"# {WITHIN.sub(CELL, line)}\n"


def _cell(name: str) -> str:
    """Returns the name, changed so that no spreadsheet interprets it as a formula."""
    return f"'{name}" if name.startswith(FORMULA) and name not in NUMBERS else name
