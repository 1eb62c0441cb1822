"""One row for each compared tensor of each pair, for spreadsheets and scripts. Lines that begin with # hold what belongs to no
tensor: verdicts, blame, what is missing, notes."""

from __future__ import annotations

import csv
import io

from qverify.printable import visible
from qverify.renderers.difference_rows import COLUMNS, difference_rows, headline
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.report.difference import Difference
from qverify.report.document import Pair, Report, TensorRow, plain

SUFFIX = ".csv"
FIRST = ("pair", "frame", "board", "tensor", "op", "dtype", "shape", "verdict", "bit_equal", "elements", "failing")
FORCED = ("forced", "forced_max_lsb")
FORMULA = ("=", "+", "-", "@")  # how a spreadsheet's formula begins
NUMBERS = ("-inf",)  # texts that begin so and are none


def write(report: Report, path: str) -> None:
    """Writes the rows in running order, the pairs one after another."""
    report = visible(report)
    metrics = sorted({name for pair in report.pairs for row in pair.tensors for name in row.metrics})
    text = io.StringIO()
    text.writelines(f"# {line}\n" for line in summary_lines(report))
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*FIRST, *FORCED, *metrics])
    for pair in report.pairs:
        rows.writerows(_row(pair, row, metrics) for row in pair.tensors)
    write_report(text.getvalue(), path)


def write_difference(found: Difference, path: str) -> None:
    """Writes a row for each change, the whole run first. An empty cell: absent in that run."""
    found = visible(found)
    text = io.StringIO()
    text.write(f"# {headline(found)}\n")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for row in difference_rows(found):
        values = (plain(getattr(row, name)) for name in COLUMNS)
        rows.writerow("" if v is None else _cell(v) if isinstance(v, str) else v for v in values)
    write_report(text.getvalue(), path)


def _row(pair: Pair, row: TensorRow, metrics: list[str]) -> list[object]:
    forced = row.forced
    shown = [
        f"{pair.a}~{pair.b}",
        pair.frame,
        _cell(pair.board or ""),
        _cell(row.name),
        row.op,
        row.dtype,
        "x".join(map(str, row.shape)),
        row.verdict,
        int(row.bit_equal),
        row.elements,
        "" if row.failing is None else row.failing,
    ]
    shown += [forced.verdict, forced.max_lsb] if forced is not None else ["", ""]
    values = (plain(row.metrics.get(name)) for name in metrics)
    return [*shown, *("" if v is None or isinstance(v, dict) else v for v in values)]


def _cell(name: str) -> str:
    """Returns the name so that no spreadsheet takes it for a formula."""
    return f"'{name}" if name.startswith(FORMULA) and name not in NUMBERS else name
