"""One row for each compared tensor of each pair, for spreadsheets and scripts. Lines that begin with # hold what belongs to no
tensor: verdicts, blame, what is missing, notes."""

from __future__ import annotations

import csv
import io

from qverify.printable import visible
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.tables import tensor_rows
from qverify.report.document import Report

SUFFIX = ".csv"
NAMES = ("board", "tensor")  # columns of foreign text
FORMULA = ("=", "+", "-", "@")  # how a spreadsheet's formula begins


def write(report: Report, path: str) -> None:
    """Writes the rows in running order, the pairs one after another."""
    report = visible(report)
    columns, table = tensor_rows(report)
    text = io.StringIO()
    text.writelines(f"# {line}\n" for line in summary_lines(report))
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows([_cell(name, value) for name, value in zip(columns, row, strict=True)] for row in table)
    write_report(text.getvalue(), path)


def _cell(column: str, value: object) -> object:
    """Returns a value as the file has it: no spreadsheet takes a name for a formula, and nothing is an empty cell."""
    if column in NAMES and str(value).startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else int(value) if isinstance(value, bool) else value
