"""Returns the compared tensors as rows of plain values, in the columns of the CSV and the Python API."""

from __future__ import annotations

from qverify.report.document import Pair, ReportDocument, TensorRow, plain

BASIC_COLUMNS = (
    "pair",
    "frame",
    "board",
    "tensor",
    "op",
    "dtype",
    "shape",
    "verdict",
    "bit_equal",
    "elements",
    "failing",
)
FORCED_COLUMNS = ("forced", "forced_max_lsb")


def tensor_rows(report: ReportDocument) -> tuple[list[str], list[list[object]]]:
    """Returns the columns, and a row for each tensor of each pair: pair by pair, in running order. A missing value is
    None."""
    metrics = sorted({name for pair in report.pairs for row in pair.tensors for name in row.metrics})
    rows = [_row(pair, row, metrics) for pair in report.pairs for row in pair.tensors]
    return [*BASIC_COLUMNS, *FORCED_COLUMNS, *metrics], rows


def _row(pair: Pair, row: TensorRow, metrics: list[str]) -> list[object]:
    forced = row.forced
    shown: list[object] = [
        f"{pair.a}~{pair.b}",
        pair.frame,
        pair.board or "",
        row.name,
        row.op,
        row.dtype,
        "x".join(map(str, row.shape)),
        row.verdict,
        row.bit_equal,
        row.elements,
        row.failing,
    ]
    shown += [forced.verdict, forced.max_lsb] if forced is not None else [None, None]
    values = (plain(row.metrics.get(name)) for name in metrics)
    return [*shown, *(None if isinstance(value, dict) else value for value in values)]
