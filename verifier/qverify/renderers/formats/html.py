"""A web page: a single file that makes no requests."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers import difference_page, matrix_page
from qverify.renderers.html_page import triage_page
from qverify.renderers.html_page.page import render
from qverify.renderers.report_text import write_report
from qverify.report.difference import ReportDifference
from qverify.report.document import ReportDocument
from qverify.report.matrix.document import MatrixDocument
from qverify.report.triage_document import TriageDocument

SUFFIX = ".html"
DRAWS = True


def write(report: ReportDocument, path: str) -> None:
    """Writes the page."""
    write_report(render(visible(report)), path)


def write_triage(triage: TriageDocument, path: str) -> None:
    """Writes the page of triage."""
    write_report(triage_page.render(visible(triage)), path)


def write_difference(difference: ReportDifference, path: str) -> None:
    """Writes the page of two runs."""
    write_report(difference_page.render(visible(difference)), path)


def write_matrix(matrix: MatrixDocument, path: str) -> None:
    """Writes the page of many runs."""
    write_report(matrix_page.render(visible(matrix)), path)
