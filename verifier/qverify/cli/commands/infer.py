"""Runs one side and writes every tensor it offers as .npy, with the names in manifest.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.board_options import one_board, reaching
from qverify.cli.input_options import taking_inputs
from qverify.cli.saying import say

if TYPE_CHECKING:
    from qverify.inputs.sources import Asked


@click.command(help=__doc__)
@click.option("-m", "--model", required=True, help="quant.onnx and/or model.bin, comma list")
@click.option("--side", type=click.Choice(["reference", "simulator", "board"]), default="simulator", show_default=True)
@one_board(default=("local",), show_default=True, help="one, as of the main job")
@click.option("--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input")
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False), help="folder to write")
@taking_inputs
@reaching()
def command(
    model: str,
    side: str,
    board: str,
    shapes: tuple[str, ...],
    output: str,
    inputs: Asked,
    deadline_s: float,
    reach: dict[str, str],
) -> int:
    from qverify.session.infer import Reached, infer
    from qverify.session.models import parse_shapes

    paths = model.split(",")
    if not all(paths) or not board:
        raise click.UsageError("an empty -m or -b (an unset shell variable?)")
    recording, written = infer(paths, side, Reached(board, deadline_s, reach), inputs, output, parse_shapes(shapes))
    say(f"{side}: {recording.state}, {written} tensors in {output}" + (f" ({recording.why})" if recording.why else ""))
    return 0 if recording.state == "complete" else 3
