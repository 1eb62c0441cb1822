"""One page to look at and to send on: a single file without requests."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers.html_page.page import render
from qverify.renderers.report_text import write_report
from qverify.report.document import Report

SUFFIX = ".html"


def write(report: Report, path: str) -> None:
    """Writes the page."""
    write_report(render(visible(report)), path)
