"""The main job: runs the reference, the simulator and the board, and reports PASSED, or which side is to blame and
where."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import click

from qverify.cli.board_options import link_options
from qverify.cli.ci_annotations import annotate
from qverify.cli.dump_options import dump_in_place_options
from qverify.cli.engine_options import QUANTIZATION, side_options
from qverify.cli.grouped_help import GroupedCommand
from qverify.cli.input_options import input_options
from qverify.cli.judging import judging_options
from qverify.cli.numbers import Finite
from qverify.cli.python_options import hand_over
from qverify.cli.reporting import (
    NPZ,
    ReportFiles,
    emit,
    exit_status,
    report_options,
    require_no_input,
    require_writable,
)
from qverify.cli.runner_options import runner_options
from qverify.cli.sequence_options import sequence_options
from qverify.cli.server_options import farm_request, server_options, verify_on_farm
from qverify.cli.task_options import task_options
from qverify.cli.view_options import view_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from qverify.cli.live_progress import LiveProgress
    from qverify.compare.options import Options
    from qverify.inputs.sources import InputRequest
    from qverify.renderers.text_view import TextView
    from qverify.report.document import ReportDocument
    from qverify.sequences.sequence_request import SequenceRequest
    from qverify.session.job import Job, JobOutcome
    from qverify.session.many_frames import FrameSource
    from qverify.session.request import BoardDump, Request
    from qverify.session.task.task_request import TaskRequest
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
@click.option(
    "-m",
    "--model",
    "models",
    required=True,
    multiple=True,
    help="comma list: quant.onnx, model.bin, or a .tflite or .espdl alone (recognised by content); with a runner the last is the board's; may be repeated",
)
@click.option(
    "-b",
    "--board",
    "boards",
    multiple=True,
    help="local, qemu-user:aarch64, HOST, serial:///dev/ttyUSB0, qemu:arm64, podman:IMAGE, a name in boards.toml; may be repeated",
)
@click.option(
    "--no-board",
    is_flag=True,
    help="verify the host's sides alone; where CI=true, a run without -b is refused without it",
)
@side_options
@QUANTIZATION
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input; may be repeated"
)
@click.option(
    "--signature",
    default="",
    metavar="NAME",
    help="signature of a .tflite alone that is verified  [default: the first]",
)
@click.option(
    "--pull",
    type=click.Choice(("differ", "all")),
    default="differ",
    show_default=True,
    help="tensors whose bytes cross the link: those whose digests differ, or all",
)
@click.option(
    "--arithmetic",
    default="",
    metavar="FILE|NAME",
    help="how the board rounds, as qverify identify found it, or a shipped arithmetic: the board must give every bit of the simulator under it",
)
@click.option("--allow-other-model", is_flag=True, help="accept a model.bin compiled from another ONNX, and say so")
@click.option(
    "--no-host",
    is_flag=True,
    help="refuse a model with nodes that no kernel serves, which the host would compute, not verified",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    help="runs of the board on the same inputs; tensors that change are reported",
)
@click.option(
    "--paranoid",
    is_flag=True,
    help="pull every tensor, and also compare the board with the simulator on other, random inputs",
)
@click.option(
    "--spot-seed",
    type=click.IntRange(0, 2**32 - 1),
    help="seed that chooses the tensor of the spot check, and --paranoid's inputs; when not given, a new one is drawn for each run and reported",
)
@click.option(
    "--reference-spread",
    is_flag=True,
    help="also run the reference under other settings, and mark differences no larger than theirs",
)
@click.option(
    "--reference-python",
    multiple=True,
    metavar="COMMAND",
    help="another Python with onnxruntime and numpy that takes part in --reference-spread, or runs --reference-engine, such as 'venv/bin/python' of an older "
    "onnxruntime, or ARM kernels (scripts/arm_reference of a clone makes them); may be repeated (or one, in QVERIFY_REFERENCE_PYTHON)",
)
@click.option(
    "--reference-engine",
    multiple=True,
    metavar="ENGINE",
    help="what runs an ONNX with a vendor's own operators: lib:PATH (custom operators for onnxruntime; may be repeated), "
    "module:callable or FILE.py:callable, or onnxruntime, that of --reference-python",
)
@click.option(
    "--reference-timeout",
    "reference_timeout_s",
    type=Finite(0.1, 1e6),
    default=900.0,
    show_default=True,
    help="seconds for each run of --reference-python or --reference-engine",
)
@click.option(
    "--capture",
    metavar="DIR",
    help="store everything the run sees there, for replay, compare and triage; several boards use DIR-0, DIR-1, ...",
)
@server_options
@dump_in_place_options
@NPZ
@view_options
@report_options()
@input_options
@task_options
@link_options(runtime=False)
@runner_options
@judging_options
@sequence_options
def command(
    models: tuple[str, ...],
    boards: tuple[str, ...],
    no_board: bool,
    run_sim: bool,
    run_reference: bool,
    simulators: tuple[str, ...],
    quantization: tuple[str, ...],
    shapes: tuple[str, ...],
    pull: Literal["differ", "all"],
    arithmetic: str,
    allow_other_model: bool,
    signature: str,
    no_host: bool,
    repeat: int,
    paranoid: bool,
    spot_seed: int | None,
    reference_spread: bool,
    reference_python: tuple[str, ...],
    reference_engine: tuple[str, ...],
    reference_timeout_s: float,
    capture: str | None,
    server: tuple[str, str | None] | None,
    npz: str | None,
    view: TextView,
    reports: ReportFiles,
    inputs: InputRequest,
    task: TaskRequest | None,
    deadline_s: float,
    reach: dict[str, str],
    runner: tuple[tuple[str, str], ...],
    reading: Callable[[str | None], BoardDump | None],
    options: Options,
    sequence: SequenceRequest | None,
) -> int:
    from qverify.session.many_frames import frame_sources
    from qverify.session.models import parse_shapes
    from qverify.session.request import Request, find_dump
    from qverify.session.task.float_model import split_float
    from qverify.session.verify_boards import VerifyJob

    if reference_spread and not reference_python and (python := os.environ.get("QVERIFY_REFERENCE_PYTHON")):
        reference_python = (python,)
    paths = [p for model in models for p in model.split(",")]
    if not all(paths) or not all(boards) or capture == "":
        raise click.UsageError("an empty -m, -b or --capture (an unset shell variable?)")
    all_paths, inputs_text = paths, inputs.files if isinstance(inputs.files, str) else None
    if task is not None:
        paths, float_model = split_float(paths)
        task = replace(task, float_model=float_model)
    dump = reading(find_dump(paths) if server is None and not boards else None)
    if signature and (capture is not None or server is not None or dump is not None):
        raise click.UsageError(
            f"--signature {signature}: for boards of this host, without --capture, --server and a dump"
        )
    frames = frame_sources(inputs_text)
    if sequence is not None and (
        option := _refused_with_steps(len(boards) > 1, server is not None, dump is not None, npz is not None)
    ):
        raise click.UsageError(f"--steps {sequence.steps}: {option}")
    if dump is not None:
        paths = [path for path in paths if path != dump.path]
        _check_dump(dump.path, {"--no-board": no_board, "--npz": npz is not None}, frames is not None)
    if npz is not None:
        _check_npz(npz, len(boards), frames is not None)
        reports.check_other(npz, "--npz")
    first = parse_shapes(shapes)
    if sequence is not None:
        from qverify.session.sequence.first_shapes import first_shapes

        first, sequence = first_shapes(paths, first, sequence)
    request = Request(
        paths,
        run_sim=run_sim,
        simulators=simulators,
        quantization=quantization,
        run_reference=run_reference,
        inputs=inputs,
        options=replace(options, drawings=reports.drawings),
        deadline_s=deadline_s,
        shapes=first,
        allow_other_model=allow_other_model,
        signature=signature,
        arithmetic=arithmetic,
        host=not no_host,
        pull=pull,
        reach=reach,
        runner=runner,
        repeat=repeat,
        paranoid=paranoid,
        spot_seed=spot_seed,
        capture=capture,
        reference_spread=reference_spread,
        reference_python=reference_python,
        reference_timeout_s=reference_timeout_s,
        task=task,
        reference_engine=reference_engine,
        sequence=sequence,
    )
    job = VerifyJob(request, boards, frames, dump=dump)
    if server is not None:
        if npz is not None:
            raise click.UsageError("--npz: a farm keeps no tensors; leave it out, or run here without --server")
        job = replace(job, on_farm=farm_request(all_paths, boards, inputs_text, server))
    if hand_over(job):
        return 0
    if dump is not None:
        from qverify.renderers import terminal
        from qverify.session.offline.verify_dump import verify_dump

        whole = verify_dump(request, dump)
        return emit(whole, terminal.render(whole, [], view), reports)
    _check_board(boards, no_board)
    if job.on_farm is not None:
        whole = verify_on_farm(job, view, reports.stdout_taken)
    else:
        whole = _verify_boards(job, Output(view, reports, npz))
    verified = max(len(boards), len(whole.boards))
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


def _check_dump(path: str, given: dict[str, bool], many_frames: bool) -> None:
    """Raises UsageError for options that a dump in the board's place cannot have, and for several frames."""
    option = next((name for name, value in given.items() if value), "")
    if option or many_frames:
        what = f"leave out {option}" if option else "it is of one frame; give one input"
        raise click.UsageError(f"-m {path}: a dump is in the board's place; {what}")


def _refused_with_steps(several: bool, on_farm: bool, has_dump: bool, npz: bool) -> str:
    """Returns what a sequence cannot have, in words; "" for none."""
    if several:
        return "a sequence is of one board; give one -b"
    if on_farm:
        return "--server takes independent frames; run it here, without --server"
    if has_dump:
        return "a dump is of one step; give -b BOARD"
    return "--npz takes one frame; --capture DIR keeps those of all steps" if npz else ""


def _check_npz(path: str, boards: int, many_frames: bool) -> None:
    """Raises UsageError if --npz cannot be written for this run."""
    if boards > 1 or many_frames:
        raise click.UsageError("--npz takes one frame and at most one board; --capture DIR keeps those of several")
    require_writable("--npz", path, regular=True)
    require_no_input(path, "--npz")


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
    from qverify.session.write_tensors import write_tensors

    with live_progress() as live:
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
