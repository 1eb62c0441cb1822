"""Renders a report for a notebook: the verdict and the blame in words, and the tensors that differ most, those of blamed
nodes first. Its few styles are attributes, since a notebook shares one page among all cells."""

from __future__ import annotations

from html import escape

from qverify.printable import visible
from qverify.renderers.blamed import blame_line
from qverify.renderers.overall_lines import overall_lines
from qverify.report.document import ReportDocument, TensorRow

MAX_ROWS = 10  # tensors
COLOURS = {"PASSED": "#1a7f37", "FAILED": "#cf222e", "INCONCLUSIVE": "#9a6700"}  # legible on white and on black
WRAPPED, SCROLLED = "overflow-wrap:anywhere", "overflow-wrap:normal;overflow-x:auto;max-width:100%"
COLUMNS = ("pair", "tensor", "op", "verdict", "differ", "largest difference")


def render(report: ReportDocument) -> str:
    """Returns the report as HTML without scripts, for the output of a cell."""
    report = visible(report)
    lines = overall_lines(report) or [(report.verdict, f"nothing compared: {report.verdict}")]
    parts = [f"<p><b>qverify: {_coloured(report.verdict, report.verdict)}</b></p>"]
    parts += dict.fromkeys(f"<p><b>{escape(blame_line(blame))}</b></p>" for blame in report.blamed)
    parts += [f"<p>{_coloured(text, verdict)}</p>" for verdict, text in lines]
    return f'<div style="{WRAPPED}">{"".join(parts)}{_table(report)}</div>'


def _coloured(text: str, verdict: str) -> str:
    colour = COLOURS.get(verdict)
    return f'<span style="color:{colour}">{escape(text)}</span>' if colour else escape(text)


def preformatted(verdict: str, text: str) -> str:
    """Returns preformatted lines as HTML, below a verdict."""
    return f"<div><p><b>qverify: {escape(verdict)}</b></p><pre>{escape(text)}</pre></div>"


def _table(report: ReportDocument) -> str:
    differing = [(f"{p.a} ~ {p.b}", row) for p in report.pairs for row in p.tensors if not row.bit_equal]
    if not differing:
        return ""
    blamed = {name for blame in report.blamed for name in (blame.node, *blame.also)}
    differing.sort(key=lambda pair: (pair[1].node not in blamed, pair[1].verdict == "PASSED", -_largest(pair[1])))
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    body = "".join(_row(pair, row) for pair, row in differing[:MAX_ROWS])
    more = f"<p>{len(differing) - MAX_ROWS} more differ</p>" if len(differing) > MAX_ROWS else ""
    return (
        f'<div style="{SCROLLED}">' + f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _row(pair: str, row: TensorRow) -> str:
    differ = "" if row.failing is None else f"{row.failing} of {row.elements}"
    largest = row.metrics.get("max_abs")
    number = f"{largest:.4g}" if isinstance(largest, (int, float)) else ""
    cells = [escape(cell) for cell in (pair, row.name, row.op)]
    cells += [_coloured(row.verdict, row.verdict), escape(differ), escape(number)]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _largest(row: TensorRow) -> float:
    value = row.metrics.get("max_abs")
    return float(value) if isinstance(value, (int, float)) else 0.0
