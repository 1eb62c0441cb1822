"""Runs one side and writes each tensor it offers as NAME.npy, with dump.json: name, file, dtype, shape, scale and zero
point of each, and manifest.json, which compare reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say
from qverify.cli.takes import takes
from qverify.options import board as board_table
from qverify.options.commands import INPUTS, LINK, RUNNERS

if TYPE_CHECKING:
    from qverify.options.given import Given


@click.command(help=__doc__)
@click.option(
    "-m",
    "--model",
    required=True,
    help="quant.onnx and/or model.bin, comma list; with --side reference also a float ONNX",
)
@click.option("--side", type=click.Choice(["reference", "simulator", "board"]), default="simulator", show_default=True)
@takes(board_table.BOARD.but(default=("local",), shown=True))
@click.option("--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False), help="folder to write")
@click.option("--dequantize", is_flag=True, help="write real values (float32) instead of stored integers")
@click.option(
    "--reference-engine",
    multiple=True,
    metavar="ENGINE",
    help="with --side reference, what runs an ONNX with a vendor's own operators, as in the main job",
)
@click.option("--reference-python", multiple=True, metavar="COMMAND", help="the Python that runs the reference engine")
@takes(*INPUTS, *LINK, *RUNNERS)
def command(
    model: str,
    side: str,
    shapes: tuple[str, ...],
    output: str,
    dequantize: bool,
    reference_engine: tuple[str, ...],
    reference_python: tuple[str, ...],
    given: Given,
) -> int:
    from qverify.plural import count
    from qverify.session.models import parse_shapes
    from qverify.session.other_jobs.infer import BoardAddress, infer
    from qverify.session.requests.inputs import read_inputs
    from qverify.session.requests.sides import read_link, read_runner

    inputs, (deadline_s, reach) = read_inputs(given), read_link(given)
    runner = read_runner(given, reach)
    paths, board = model.split(","), given["board"]
    if not all(paths) or not board:
        raise click.UsageError("an empty -m or -b (an unset shell variable?)")
    if reference_python and not reference_engine:
        raise click.UsageError("--reference-python runs --reference-engine; give that, too")
    address, engine = BoardAddress(board, deadline_s, reach, runner), (reference_engine, reference_python)
    recording, written = infer(paths, side, address, inputs, output, parse_shapes(shapes), dequantize, engine)
    tensors = count(written, "tensor")
    say(f"{side}: {recording.state}, {tensors} in {output}" + (f" ({recording.why})" if recording.why else ""))
    return 0 if recording.state == "complete" else 3
