"""Renders a report for a notebook: the verdict and the blame in words, and the tensors that differ most."""

from __future__ import annotations

from html import escape

from qverify.printable import visible
from qverify.renderers.blamed import blame_line
from qverify.renderers.overall_lines import overall_lines
from qverify.report.document import ReportDocument, TensorRow

MAX_ROWS = 10  # tensors
COLUMNS = ("pair", "tensor", "op", "verdict", "differ", "largest difference")


def render(report: ReportDocument) -> str:
    """Returns the report as HTML without styles and scripts, for the output of a cell."""
    report = visible(report)
    lines = [text for _, text in overall_lines(report)] or [f"nothing compared: {report.verdict}"]
    parts = [f"<p><b>qverify: {report.verdict}</b></p>", *(f"<p>{escape(text)}</p>" for text in lines)]
    parts += dict.fromkeys(f"<p>{escape(blame_line(blame))}</p>" for blame in report.blamed)
    return f"<div>{''.join(parts)}{_table(report)}</div>"


def preformatted(verdict: str, text: str) -> str:
    """Returns preformatted lines as HTML, below a verdict."""
    return f"<div><p><b>qverify: {escape(verdict)}</b></p><pre>{escape(text)}</pre></div>"


def _table(report: ReportDocument) -> str:
    differing = [(f"{p.a} ~ {p.b}", row) for p in report.pairs for row in p.tensors if not row.bit_equal]
    if not differing:
        return ""
    differing.sort(key=lambda pair: (pair[1].verdict == "PASSED", -_largest(pair[1])))
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    body = "".join(_row(pair, row) for pair, row in differing[:MAX_ROWS])
    more = f"<p>{len(differing) - MAX_ROWS} more differ</p>" if len(differing) > MAX_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _row(pair: str, row: TensorRow) -> str:
    differ = "" if row.failing is None else f"{row.failing} of {row.elements}"
    largest = row.metrics.get("max_abs")
    number = f"{largest:.4g}" if isinstance(largest, (int, float)) else ""
    cells = (pair, row.name, row.op, row.verdict, differ, number)
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _largest(row: TensorRow) -> float:
    value = row.metrics.get("max_abs")
    return float(value) if isinstance(value, (int, float)) else 0.0
