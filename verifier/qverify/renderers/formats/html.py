"""One page to look at and to send on: a single file without requests."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers import difference_page
from qverify.renderers.html_page import triage_page
from qverify.renderers.html_page.page import render
from qverify.renderers.report_text import write_report
from qverify.report.difference import ReportDifference
from qverify.report.document import Report
from qverify.report.triage_document import TriageDocument

SUFFIX = ".html"
DRAWS = True  # tensors: they are drawn only where something asks for it


def write(report: Report, path: str) -> None:
    """Writes the page."""
    write_report(render(visible(report)), path)


def write_triage(triage: TriageDocument, path: str) -> None:
    """Writes the page of triage."""
    write_report(triage_page.render(visible(triage)), path)


def write_difference(found: ReportDifference, path: str) -> None:
    """Writes the page of two runs."""
    write_report(difference_page.render(visible(found)), path)
