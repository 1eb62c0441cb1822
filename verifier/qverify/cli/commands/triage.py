"""Walks the ladder from the float ONNX to the board: which gate fails, at which tensors, and the next step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from qverify.cli.board_options import board_option, link_options
from qverify.cli.ci_annotations import annotate
from qverify.cli.engine_options import engine_options, side_options
from qverify.cli.grouped_help import GroupedCommand
from qverify.cli.input_options import input_options
from qverify.cli.judging import ladder_judging_options
from qverify.cli.numbers import Finite
from qverify.cli.python_options import hand_over
from qverify.cli.reporting import ReportFiles, emit, exit_status, report_options
from qverify.cli.runner_options import runner_options
from qverify.cli.sequence_options import sequence_options
from qverify.cli.view_options import QUIET, screen

if TYPE_CHECKING:
    from qverify.capture.reader import Capture
    from qverify.compare.options import Options
    from qverify.inputs.sources import InputRequest
    from qverify.report.triage_document import TriageDocument
    from qverify.sequences.sequence_request import SequenceRequest
    from qverify.session.request import Request, RequestedEngine
    from qverify.session.triage.run_reduction import ReductionRequest

RUN_OPTIONS = {  # options that only a new run can have, by the names of their parameters
    "seed": "--seed",
    "shapes": "--shape",
    "deadline_s": "--timeout",
    "repeat": "--repeat",
    "keep": "--capture",
    "user": "--user",
    "wait": "--wait",
    "ssh_config": "--ssh-config",
    "ssh_backend": "--ssh-backend",
    "accept_new_host_key": "--accept-new-host-key",
}


EXAMPLES = (
    (
        "qverify triage -m float.onnx,quant.onnx,model.bin -b BOARD -i photo.jpg",
        "every gate, from the float model to the board",
    ),
    ("qverify triage capture/", "why the run that --capture stored failed, without the board"),
    ("qverify triage -m quant.onnx -b BOARD -i photo.jpg --reduce small/", "the smallest model that still fails"),
)


@click.command(cls=GroupedCommand, help=__doc__, examples=EXAMPLES, page="docs/how-to/bad-case.md")
@click.argument("capture", required=False)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="comma list: float.onnx, quant.onnx, model.bin, a dump of another runtime (folder or .npz); may be repeated",
)
@click.option(
    "--stages",
    help="the stages in order, if not float, quantized, simulator, board: A.onnx,B.onnx,Q.onnx,simulator,board",
)
@board_option()
@side_options
@click.option("--app-input", metavar="FILE", help="bytes the application fed, compared with those prepared from -i")
@click.option("--app-output", metavar="FILE", help="the application's outputs (.npz or folder of .npy), by output name")
@click.option(
    "--loss",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="measure the loss of tensors quantized one at a time, and what if they stay in float; auto: where the gate from float fails",
)
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="tensors listed, the most sensitive first"
)
@click.option("--all", "every", is_flag=True, help="list every tensor and every experiment")
@QUIET
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input; may be repeated"
)
@click.option("--allow-other-model", is_flag=True, help="accept a model.bin compiled from another ONNX, and say so")
@click.option(
    "--explain",
    "explain_s",
    type=Finite(0, 3600),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="how long to test known faults at a node where the board is blamed; 0: not at all",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    help="runs of the board on the same inputs; at least two where it fails, before anything is concluded",
)
@click.option(
    "--reduce",
    metavar="DIR",
    help="reduce the model to the smallest part that still differs on the board, with everything to repeat it",
)
@click.option("--arithmetic", default="", metavar="FILE|NAME", help="how the board rounds, as in the main job")
@click.option(
    "--build-cmd",
    "build",
    metavar="COMMAND",
    help="command that makes the board's {model} of {onnx}: on a board with a runner, locates the first node that goes wrong by "
    "bisection, with no dumps; with --reduce, builds the parts",
)
@click.option(
    "--capture", "keep", metavar="DIR", help="keep everything the run saw, experiments included, to triage it again"
)
@engine_options
@report_options("write_triage")
@input_options
@link_options(runtime=False)
@runner_options
@ladder_judging_options
@sequence_options
def command(
    capture: str | None,
    models: tuple[str, ...],
    stages: str | None,
    board: str | None,
    run_sim: bool,
    run_reference: bool,
    simulators: tuple[str, ...],
    app_input: str | None,
    app_output: str | None,
    loss: Literal["auto", "always", "never"],
    top: int,
    every: bool,
    quiet: bool,
    shapes: tuple[str, ...],
    allow_other_model: bool,
    arithmetic: str,
    explain_s: float,
    repeat: int,
    reduce: str | None,
    build: str | None,
    keep: str | None,
    engine: RequestedEngine,
    reports: ReportFiles,
    inputs: InputRequest,
    deadline_s: float,
    reach: dict[str, str],
    runner: tuple[tuple[str, str], ...],
    gates: tuple[str, ...],
    options: Options,
    sequence: SequenceRequest | None,
) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.renderers import triage_text as text
    from qverify.session.models import parse_shapes
    from qverify.session.triage.run_reduction import ReductionRequest
    from qverify.session.triage.run_triage import run_triage
    from qverify.session.triage.triage_request import TriageRequest
    from qverify.triage.ladder import parse_gate

    paths = [p for model in models for p in model.split(",")]
    order = stages.split(",") if stages is not None else []
    opened_capture = None if capture is None else _open_capture(capture, bool(board or order or inputs.files))
    _check_sources(paths, order, opened_capture)
    _check_reduction(reduce, build, opened_capture is None and board is not None)
    _check_runner(board, runner, reach, build, reduce, app_output)
    if opened_capture is not None and simulators:
        raise click.UsageError(
            f"{capture} has the engines of its run; leave --simulator, --reference and -s ENGINE out"
        )
    first = parse_shapes(shapes)
    if sequence is not None:
        _check_sequence(opened_capture, order, app_input or app_output, sequence)
        from qverify.session.sequence.first_shapes import first_shapes

        first, sequence = first_shapes(paths, first, sequence)
    if engine.names:
        _check_engine(opened_capture, build, reduce, keep)
    request = TriageRequest(
        paths,
        stages=order,
        board=board,
        run_sim=run_sim,
        run_reference=run_reference,
        simulators=simulators,
        inputs=inputs,
        gates=dict(parse_gate(g) for g in gates),
        options=replace(options, drawings=reports.drawings),
        app_input=app_input,
        app_output=app_output,
        loss=loss,
        deadline_s=deadline_s,
        shapes=first,
        allow_other_model=allow_other_model,
        arithmetic=arithmetic,
        reach=reach,
        runner=runner,
        explain_s=explain_s,
        repeat=repeat,
        capture=opened_capture,
        keep=keep,
        build=None if reduce else build,
        sequence=sequence,
        engine=engine,
    )
    reduction = None if reduce is None else ReductionRequest(reduce, build)
    if hand_over((request, reduction)):
        return 0
    with progress_bars() as watch:
        triage, failing = run_triage(request, watch, lambda line: click.echo(line, err=True))
    view = replace(screen(), top=top, every=every, detail="quiet" if quiet else "normal")
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


def _check_sources(paths: list[str], order: list[str], capture: Capture | None) -> None:
    """Raises UsageError if there is nothing to triage, or a path is empty."""
    if not all(paths) or not all(order) or not (paths or order or capture):
        raise click.UsageError(
            "give -m float.onnx,quant.onnx,model.bin or --stages (an empty one: an unset shell variable?)"
        )


def _check_runner(
    board: str | None,
    runner: tuple[tuple[str, str], ...],
    reach: dict[str, str],
    build: str | None,
    reduce: str | None,
    app_output: str | None,
) -> None:
    """Raises UsageError for options that do not apply to what runs on the board."""
    from qverify.session.chosen_sides import choose_board

    if board is None or choose_board(board, runner, reach).page is None:
        if build is not None and reduce is None:
            raise click.UsageError("--build-cmd is for a board with a runner (--runner), or with --reduce DIR")
    elif app_output is not None:
        raise click.UsageError("--app-output is compared with a board that runs qvrt; leave it out with a runner")


def _check_sequence(
    capture: Capture | None, order: list[str], application: str | None, sequence: SequenceRequest
) -> None:
    """Raises UsageError for what a sequence cannot be triaged with."""
    given = {
        "a capture": capture is not None,
        "--stages": bool(order),
        "--app-input and --app-output": bool(application),
    }
    if option := next((name for name, value in given.items() if value), ""):
        raise click.UsageError(
            f"--steps {sequence.steps}: {option}: triage of a sequence takes -m and -b alone; leave it out"
        )


def _check_engine(capture: Capture | None, build: str | None, reduce: str | None, keep: str | None) -> None:
    """Raises UsageError for options that need an integer graph, which a reference engine does not give."""
    if capture is not None:
        raise click.UsageError("--reference-engine is for -m; a capture has its reference: leave the option out")
    values = {"--capture": keep, "--reduce": reduce, "--build-cmd": build}
    if option := next((option for option, value in values.items() if value is not None), None):
        raise click.UsageError(
            f"{option} needs an integer graph, which --reference-engine does not give; leave {option} out. A node that the engine "
            "gives by itself is compared by itself (the main job with -r True lists them)"
        )


def _open_capture(folder: str, has_sources: bool) -> Capture:
    """Opens a capture for triage. has_sources: a board, stages or inputs were given as well, which is a usage error, as
    is an option that only a new run can have."""
    from qverify.capture.reader import open_capture

    capture = open_capture(folder)
    if has_sources:
        raise click.UsageError(
            f"{folder} has its own inputs and board; leave -b, -i and --stages out, or give -m MODELS instead"
        )
    source = click.get_current_context().get_parameter_source
    if options := [o for n, o in RUN_OPTIONS.items() if source(n) is ParameterSource.COMMANDLINE]:
        raise click.UsageError(f"{folder} is a finished run; {options[0]} applies only to a new run")
    return capture


def _check_reduction(folder: str | None, build: str | None, has_board: bool) -> None:
    """Raises UsageError for wrong values of --reduce and --build-cmd before anything runs."""
    from qverify.session.triage.reduced_folder import check_build_command, check_output_folder

    check_build_command(build)
    if folder is None:
        return
    if not has_board:
        raise click.UsageError("--reduce needs the board itself: give -m and -b")
    check_output_folder(folder)
