"""The main job: runs the reference, the simulator and the board, and reports PASSED, or which side is to blame and
where."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from qverify.cli.ci_annotations import annotate
from qverify.cli.farm_printer import verify_on_farm
from qverify.cli.grouped_help import GroupedCommand
from qverify.cli.reporting import ReportFiles, emit, exit_status, read_reports, require_no_input
from qverify.cli.takes import takes_all
from qverify.cli.view_options import read_view
from qverify.files import require_writable

if TYPE_CHECKING:
    from qverify.cli.live_progress import LiveProgress
    from qverify.options.given import Given
    from qverify.renderers.text_view import TextView
    from qverify.report.document import ReportDocument
    from qverify.session.job import Job, JobOutcome
    from qverify.session.many_frames import FrameSource
    from qverify.session.request import Request
    from qverify.session.verify_boards import VerifyJob


EXAMPLES = (
    (
        "qverify -m quant.onnx,model.bin -b root@10.0.0.5",
        "the final outputs: reference, simulator, the board's processor",
    ),
    (
        "qverify -m quant.onnx -b root@10.0.0.5 -i photos/ -r True --html report.html",
        "every node, with pictures; a page",
    ),
    (
        "qverify -m quant.onnx,net.rknn -b BOARD --runner 'tool {model} {input} {out}'",
        "the vendor's own tool, on the board's accelerator",
    ),
)


@click.command(cls=GroupedCommand, help=__doc__, examples=EXAMPLES, page="docs/index.md")
@takes_all("verify")
def command(given: Given) -> int:
    from qverify.session.requests.verify import verify_job

    view, reports = read_view(given), read_reports(given)
    job, npz = verify_job(replace(given, drawings=reports.drawings)), given["npz"]
    if npz is not None:
        require_writable("--npz", npz, regular=True)
        require_no_input(npz, "--npz")
        reports.check_other(npz, "--npz")
    if job.dump is not None:
        from qverify.renderers import terminal
        from qverify.session.offline.verify_dump import verify_dump

        whole = verify_dump(job.request, job.dump)
        return emit(whole, terminal.render(whole, [], view), reports)
    _check_board(job.boards, given["no_board"])
    if job.on_farm is not None:
        whole = verify_on_farm(job, view, reports.stdout_taken)
    else:
        whole = _verify_boards(job, Output(view, reports, npz))
    verified = max(len(job.boards), len(whole.boards))
    if verified > 1 and not reports.stdout_taken:
        from qverify.renderers.several_boards import render

        click.echo("\n" + render(whole, verified, view))
    reports.save(whole)
    annotate(whole)
    return exit_status(whole)


@dataclass(frozen=True, slots=True)
class Output:
    """The destinations of the results of a run: the screen, unless a report goes to stdout, and files. npz: path for
    its tensors, None for none."""

    view: TextView
    reports: ReportFiles
    npz: str | None = None

    @property
    def quiet(self) -> bool:
        """Whether stdout is reserved for a report."""
        return self.reports.stdout_taken


def _verify_boards(job: VerifyJob, output: Output) -> ReportDocument:
    """Verifies every board in turn, or the sides of this host alone, and returns one report."""
    from qverify.renderers.heading import section
    from qverify.session.verify_boards import verify_boards

    def run(request: Request, number: int) -> ReportDocument:
        if len(job.boards) > 1 and not output.quiet:
            title = section(job.boards[number], number + 1, len(job.boards), output.view)
            click.echo(("\n" if number else "") + title)
        return _verify_board(request, job.frames, output)

    return verify_boards(job, run, lambda report: output.reports.save(report, stdout=False))


def _check_board(boards: tuple[str, ...], no_board: bool) -> None:
    """Raises UsageError if no board was named where a pipeline would believe that one was tested."""
    if boards and no_board:
        raise click.UsageError("--no-board contradicts -b; give one of them")
    if not boards and not no_board and os.environ.get("CI", "").lower() == "true":
        raise click.UsageError("no -b given, so no board would be tested (CI=true); give -b BOARD, or --no-board")


def _verify_sequence(
    request: Request, frames: list[FrameSource] | None, job: Job, live: LiveProgress, output: Output
) -> JobOutcome:
    """Verifies a sequence: prints its states, then each step."""
    from qverify.cli.frame_printer import FramePrinter
    from qverify.printable import printable
    from qverify.session.sequence.verify_sequence import verify_sequence

    assert request.sequence is not None
    on_step = FramePrinter(live, output.view, request.sequence.steps, output.quiet)

    def on_loop(lines: list[str]) -> None:
        for line in lines if not output.quiet and output.view.detail != "quiet" else ():
            live.say(printable(line))

    return verify_sequence(request, frames, on_step, live.watch, job, on_loop)


def _verify_board(request: Request, frames: list[FrameSource] | None, output: Output) -> ReportDocument:
    """Verifies one board on one frame (frames: None) or on many, prints the result, and returns the report."""
    from qverify.cli.frame_printer import FramePrinter
    from qverify.cli.live_progress import live_progress
    from qverify.cli.streams import is_one_stream
    from qverify.printable import printable
    from qverify.renderers import frame_lines, terminal
    from qverify.session.job import Job, verify
    from qverify.session.many_frames import verify_frames
    from qverify.session.swept_shapes import possible_shapes, verify_shapes
    from qverify.session.write_tensors import write_tensors

    with live_progress() as live:
        if request.sweep:
            on_shape = FramePrinter(live, output.view, len(possible_shapes(request)), output.quiet)
            outcome = verify_shapes(request, on_shape, live.watch, frames)
            if not output.quiet:
                click.echo(frame_lines.render(outcome.report, output.view))
            return outcome.report
        job, told = Job(request), output.quiet or not is_one_stream()  # else a verdict line states the reason
        job.on_unreached = (
            (lambda why: live.say(printable(f"qverify: {why}"), err=True)) if told or live.watch else None
        )
        if request.sequence is not None:
            outcome = _verify_sequence(request, frames, job, live, output)
            text = frame_lines.render(outcome.report, output.view)
        elif frames is None:
            outcome = verify(request, live.watch, job)
            if output.npz is not None and outcome.evidence is not None:
                write_tensors(output.npz, outcome.evidence)
            text = terminal.render(outcome.report, outcome.finals, output.view)
        else:
            on_frame = FramePrinter(live, output.view, len(frames), output.quiet)
            outcome = verify_frames(request, frames, on_frame, live.watch, job)
            text = frame_lines.render(outcome.report, output.view)
    if not output.quiet:
        click.echo(text)
    return outcome.report
