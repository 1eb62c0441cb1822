"""Walks the ladder from the float ONNX to the board: which gate fails, at which tensors, and the next step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click

from qverify.cli.ci_annotations import annotate
from qverify.cli.grouped_help import GroupedCommand
from qverify.cli.reporting import ReportFiles, emit, exit_status, read_reports
from qverify.cli.takes import takes_all
from qverify.cli.view_options import screen

if TYPE_CHECKING:
    from qverify.options.given import Given
    from qverify.report.triage_document import TriageDocument
    from qverify.session.request import Request
    from qverify.session.triage.run_reduction import ReductionRequest


EXAMPLES = (
    (
        "qverify triage -m float.onnx,quant.onnx,model.bin -b BOARD -i photo.jpg",
        "every gate, from the float model to the board",
    ),
    ("qverify triage capture/", "why the run that --capture stored failed, without the board"),
    ("qverify triage -m quant.onnx -b BOARD -i photo.jpg --reduce small/", "the smallest model that still fails"),
)


@click.command(cls=GroupedCommand, help=__doc__, examples=EXAMPLES, page="docs/how-to/bad-case.md")
@takes_all("triage")
def command(given: Given) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.renderers import triage_text as text
    from qverify.session.requests.triage import triage_request
    from qverify.session.triage.run_triage import run_triage

    reports = read_reports(given, "write_triage")
    request, reduction = triage_request(replace(given, drawings=reports.drawings))
    with progress_bars() as watch:
        triage, failing = run_triage(request, watch, lambda line: click.echo(line, err=True))
    detail: Literal["quiet", "normal"] = "quiet" if given["quiet"] else "normal"
    view = replace(screen(), top=given["top"], every=given["every"], detail=detail)
    rendered = text.render(triage, view)
    if reduction is None:
        return emit(triage, rendered, reports)
    return _emit_reduced(triage, rendered, failing, reduction, reports)


def _emit_reduced(
    triage: TriageDocument, rendered: str, failing: Request | None, reduction: ReductionRequest, reports: ReportFiles
) -> int:
    """Prints and writes the results of triage, makes the reduction, and writes the reports again with its result.
    Returns the exit status."""
    from qverify.renderers import triage_text as text
    from qverify.session.triage.run_reduction import run_reduction

    if not reports.stdout_taken:
        click.echo(rendered)
    reports.save(triage, stdout=False)  # so that nothing is lost if the reduction is interrupted
    triage.reduced = run_reduction(triage, failing, reduction, lambda line: click.echo(line, err=True))
    if not reports.stdout_taken:
        click.echo(text.describe_reduction(triage.reduced))
    reports.save(triage)
    annotate(triage)
    return exit_status(triage)
