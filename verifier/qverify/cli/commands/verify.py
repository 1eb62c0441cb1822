"""The main job: runs the reference, the simulator and the board, and says PASSED, or which side is to blame and where."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from qverify.cli.board_options import reaching
from qverify.cli.input_options import taking_inputs
from qverify.cli.judging import judging
from qverify.cli.numbers import Finite
from qverify.cli.saying import say

if TYPE_CHECKING:
    from qverify.compare.options import Options
    from qverify.inputs.sources import Asked
    from qverify.report.document import Report
    from qverify.session.frames import Frame
    from qverify.session.verify import Request


@click.command(help=__doc__)
@click.option(
    "-m",
    "--model",
    "models",
    required=True,
    multiple=True,
    help="comma list: quant.onnx, model.bin (told apart by content); may be repeated",
)
@click.option(
    "-b",
    "--board",
    "boards",
    multiple=True,
    help="local, qemu-user:aarch64, HOST, serial:///dev/ttyUSB0, qemu:arm64, podman:IMAGE, a name of boards.toml; may be repeated",
)
@click.option(
    "--run-sim", "-s", default=True, type=click.BOOL, show_default=True, help="run the simulator (-s True|False)"
)
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input; may be repeated"
)
@click.option(
    "--pull",
    type=click.Choice(("differ", "all")),
    default="differ",
    show_default=True,
    help="tensors whose bytes cross the link: those whose digests differ, or all",
)
@click.option("--allow-other-model", is_flag=True, help="accept a model.bin compiled from another ONNX, and say so")
@click.option(
    "--repeat",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    help="runs of the board on the same inputs; names what changes",
)
@click.option(
    "--paranoid",
    is_flag=True,
    help="pull every tensor, and hold the board to the simulator on other, random inputs, too",
)
@click.option(
    "--spot-seed",
    type=click.IntRange(0, 2**32 - 1),
    help="which tensor is pulled to hold it to its digest, and --paranoid's inputs; without it others in each run (reported)",
)
@click.option(
    "--reference-spread",
    is_flag=True,
    help="run the reference under its other settings, too, and mark differences no larger than theirs",
)
@click.option(
    "--reference-python",
    multiple=True,
    metavar="COMMAND",
    help="another Python with onnxruntime and numpy that takes part in --reference-spread, as 'venv/bin/python' of an older "
    "onnxruntime, or ARM kernels (scripts/arm_reference); may be repeated (or one, in QVERIFY_REFERENCE_PYTHON)",
)
@click.option(
    "--reference-timeout",
    "reference_timeout_s",
    type=Finite(0.1, 1e6),
    default=900.0,
    show_default=True,
    help="seconds for each run of --reference-python",
)
@click.option(
    "--capture",
    metavar="DIR",
    help="keep everything the run sees there, for replay, compare and triage; of several boards in DIR-0, DIR-1, ...",
)
@click.option("--json", "json_path", metavar="FILE", help="write the report as JSON (- for stdout)")
@taking_inputs
@reaching()
@judging
def command(
    models: tuple[str, ...],
    boards: tuple[str, ...],
    run_sim: bool,
    shapes: tuple[str, ...],
    pull: Literal["differ", "all"],
    allow_other_model: bool,
    repeat: int,
    paranoid: bool,
    spot_seed: int | None,
    reference_spread: bool,
    reference_python: tuple[str, ...],
    reference_timeout_s: float,
    capture: str | None,
    json_path: str | None,
    inputs: Asked,
    deadline_s: float,
    reach: dict[str, str],
    options: Options,
) -> int:
    from qverify.compare.verdict import combine
    from qverify.renderers import json_file
    from qverify.report.document import worst
    from qverify.session.frames import sources
    from qverify.session.models import parse_shapes
    from qverify.session.verify import Request

    if reference_spread and not reference_python and (held := os.environ.get("QVERIFY_REFERENCE_PYTHON")):
        reference_python = (held,)
    paths = [p for model in models for p in model.split(",")]
    if not all(paths) or not all(boards) or capture == "":
        raise click.UsageError("an empty -m, -b or --capture (an unset shell variable?)")
    several = sources(inputs.files if isinstance(inputs.files, str) else None)
    request = Request(
        paths,
        run_sim=run_sim,
        inputs=inputs,
        options=options,
        deadline_s=deadline_s,
        shapes=parse_shapes(shapes),
        allow_other_model=allow_other_model,
        pull=pull,
        reach=reach,
        repeat=repeat,
        paranoid=paranoid,
        spot_seed=spot_seed,
        reference_spread=reference_spread,
        reference_python=reference_python,
        reference_timeout_s=reference_timeout_s,
    )
    reports = []
    for number, board in enumerate(boards or (None,)):
        folder = capture if len(boards) < 2 or not capture else f"{capture}-{number}"
        reports.append(_of_one_board(replace(request, board=board, capture=folder), several, json_path == "-"))
        if json_path and json_path != "-":  # nothing is lost should a later board be cut off
            so_far = combine(reports)
            if number + 1 < len(boards):
                so_far.verdict = worst([so_far.verdict, "INCONCLUSIVE"])
                so_far.notes.append(f"{number + 1} of {len(boards)} boards ran so far")
            json_file.write(so_far, json_path)
    whole = combine(reports)
    if len(boards) > 1 and json_path != "-":
        from qverify.renderers.boards import render

        click.echo("\n" + render(whole, len(boards)))
    if json_path == "-":
        json_file.write(whole, json_path)
    return _exit_status(whole)


def _of_one_board(request: Request, several: list[Frame] | None, quiet: bool) -> Report:
    """Verified and shown; quiet: stdout is for the JSON alone."""
    from qverify.cli.live_progress import bars
    from qverify.renderers import frames, terminal
    from qverify.session.frames import verify_frames
    from qverify.session.verify import verify

    def tell(row: dict[str, Any]) -> None:
        if not quiet:
            click.echo(frames.line(row))

    with bars() as watch:
        if several is None:
            outcome = verify(request, watch)
            text = terminal.render(outcome.report, outcome.finals, request.options.dump_all)
        else:
            outcome = verify_frames(request, several, tell, watch)
            text = frames.render(outcome.report)
    if not quiet:
        click.echo(text)
    if outcome.unreached:
        say(f"qverify: {outcome.unreached}", err=True)
    return outcome.report


def _exit_status(whole: Report) -> int:
    """2 where a frame could not be prepared, unless another FAILED."""
    from qverify.report.document import EXIT

    unprepared = any(row["verdict"] == "NOT RUN" for row in whole.frames)
    return 2 if unprepared and whole.verdict != "FAILED" else EXIT[whole.verdict]
