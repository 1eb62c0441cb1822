"""Judges again without the board: a capture of the main job (`--capture`), by other thresholds or with sides run again;
or the output of a bundle's run.sh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from qverify_agents.worker import RUNTIMES

from qverify.cli.board_options import board_option, link_options
from qverify.cli.judging import judging_options
from qverify.cli.python_options import hand_over
from qverify.cli.reporting import NPZ, ReportFiles, emit, report_options, require_no_input, require_writable
from qverify.cli.view_options import view_options

if TYPE_CHECKING:
    from qverify.compare.options import Options
    from qverify.renderers.text_view import TextView
    from qverify.session.job import JobOutcome


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--dump", type=click.Path(exists=True), help="bundle: the folder or tar that run.sh wrote  [default: FOLDER/dump]"
)
@click.option(
    "-m",
    "--model",
    "models",
    help="bundle: the quantized ONNX, if it was packed without; capture: used instead of its models",
)
@click.option("--rerun", help="capture: run the reference, the simulator or both (comma list) again on its inputs")
@board_option(help="capture: run this board on its inputs, instead of the captured one")
@click.option(
    "--runtime",
    default="qvrt",
    show_default=True,
    metavar="NAME",
    help="capture: what ran on its board; with a runner's name its values are judged, not its bytes",
)
@click.option("--run-sim", "-s", default=True, type=click.BOOL, show_default=True, help="also judge the simulator")
@NPZ
@view_options
@report_options()
@link_options(runtime=False)
@judging_options
def command(
    folder: str,
    dump: str | None,
    models: str | None,
    rerun: str | None,
    board: str | None,
    runtime: str,
    run_sim: bool,
    npz: str | None,
    view: TextView,
    reports: ReportFiles,
    deadline_s: float,
    reach: dict[str, str],
    options: Options,
) -> int:
    from dataclasses import replace

    from qverify.capture.reader import is_capture
    from qverify.cli.frame_printer import FramePrinter
    from qverify.cli.live_progress import live_progress
    from qverify.renderers import frame_lines, terminal
    from qverify.session.offline.rejudge import RejudgeRequest, rejudge
    from qverify.session.offline.replay_bundle import ReplayRequest, replay

    if npz is not None:
        require_writable("--npz", npz, regular=True)
        require_no_input(npz, "--npz")
        reports.check_other(npz, "--npz")
    options = replace(options, drawings=reports.drawings)
    paths = [p for p in (models or "").split(",") if p]
    if not is_capture(folder):
        if rerun or board:
            raise click.UsageError(f"{folder}: not a capture (it has no capture.json), which --rerun and -b need")
        bundle = ReplayRequest(folder, dump, paths, run_sim, options)
        if hand_over(bundle):
            return 0
        with live_progress() as live:
            outcome = replay(bundle, live.watch)
        _write_tensors(npz, outcome)
        return emit(outcome.report, terminal.render(outcome.report, outcome.finals, view), reports)
    if dump:
        raise click.UsageError("--dump is for a bundle of qverify pack; a capture contains its board's tensors")
    rerun_sides = tuple(s for s in (rerun or "").split(",") if s)
    if runtime in RUNTIMES:
        reach["runtime"] = runtime
    request = RejudgeRequest(folder, options, rerun_sides, board, run_sim, tuple(paths), deadline_s, reach, runtime)
    if hand_over(request):
        return 0
    with live_progress() as live:
        outcome = rejudge(request, FramePrinter(live, view, 0, reports.stdout_taken), live.watch)
    _write_tensors(npz, outcome)
    report = outcome.report
    whole = frame_lines.render(report, view) if report.frames else terminal.render(report, outcome.finals, view)
    return emit(report, whole, reports)


def _write_tensors(npz: str | None, outcome: JobOutcome) -> None:
    """Writes the tensors to --npz, if it was given. Raises UsageError if the capture has several frames."""
    from qverify.session.write_tensors import write_tensors

    if npz is None:
        return
    if outcome.evidence is None:
        raise click.UsageError("--npz takes one frame, and this capture has several; qverify extract writes those")
    write_tensors(npz, outcome.evidence)
