"""`qverify report diff`: compares the reports of two runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from qverify.cli.reporting import emit, read_reports
from qverify.cli.takes import takes
from qverify.cli.view_options import screen
from qverify.options import output
from qverify.options.commands import REPORT

if TYPE_CHECKING:
    from qverify.options.given import Given

EPILOG = """Exit status: 0 every verdict is the same or better; 1 the verdict of the run or of a pair is worse (PASSED to
FAILED or INCONCLUSIVE, INCONCLUSIVE to FAILED); 3 not known: B lacks a pair that A has, the two have no tensor in common, or
FAILED became INCONCLUSIVE; 2 usage or a bad file. Numbers that change while the verdict stays do not change the status."""


@click.command(
    help="Compare two runs of one network, A before B: JSON reports (--json), or captures and bundles, which are judged again. "
    "Verdicts, blame, tensors better and worse, times, and what else was not the same",
    epilog=EPILOG,
)
@click.argument("a", type=click.Path(exists=True))
@click.argument("b", type=click.Path(exists=True))
@takes(output.ALL.but(help="list every change"), output.QUIET, *REPORT)
def diff(a: str, b: str, given: Given) -> int:
    from qverify.renderers import difference_text
    from qverify.report.compare_reports import compare_reports
    from qverify.session.offline.open_report import open_report

    reports = read_reports(given, "write_difference")
    difference = compare_reports(open_report(a), open_report(b), a, b)
    view = replace(screen(), every=given["every"], detail="quiet" if given["quiet"] else "normal")
    return emit(difference, difference_text.render(difference, view), reports)
