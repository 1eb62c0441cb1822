"""Quantizes a float ONNX with onnxruntime's quantizer: ranges from your pictures or arrays, QDQ, weights per channel.
Then compares it with the float model on the same inputs, and says what to type next. With --from, quantizes it as a vendor's
toolkit did, with the scales that its files state; with --with, runs the toolkit first. An .espdl of esp-ppq is written as the
quantized ONNX that it is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from qverify.cli.input_options import input_options
from qverify.cli.python_options import hand_over
from qverify.cli.reporting import require_writable
from qverify.cli.say_line import say, say_command

if TYPE_CHECKING:
    from qverify.inputs.sources import InputRequest
    from qverify.session.other_jobs.quantize import QuantizedFile
    from qverify.vendor_quantization import Quantized

MAX_LISTED = 5  # frames that were left out


@click.command(help=__doc__)
@click.argument("model", type=click.Path(dir_okay=False))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="quantized ONNX to write")
@click.option(
    "--from",
    "stated",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="what a vendor's toolkit wrote of its quantization, in place of inputs (rknn: NAME.quantization.cfg; sophgo: NAME_tpu.mlir); may be repeated",
)
@click.option(
    "--with",
    "engine",
    default="",
    metavar="ENGINE",
    help="let a vendor's toolkit quantize, as rknn,python=/opt/rknn/bin/python,calibration=FOLDER: its engine builds the network once with the input of -i",
)
@click.option(
    "--scheme",
    type=click.Choice(("u8s8", "s8s8", "u8u8", "s16s8")),
    default="u8s8",
    show_default=True,
    help="types of activations and weights",
)
@click.option(
    "--method",
    type=click.Choice(("minmax", "entropy", "percentile")),
    default="minmax",
    show_default=True,
    help="how ranges follow from the calibration inputs",
)
@click.option("--per-tensor", is_flag=True, help="one scale for each weight tensor, not one for each output channel")
@click.option(
    "--float", "keep_float", multiple=True, metavar="NODES", help="nodes that stay float, a comma list; may be repeated"
)
@click.option(
    "--int16", multiple=True, metavar="NODES", help="nodes whose outputs get 16 bits, a comma list; may be repeated"
)
@click.option("--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input")
@input_options
def command(
    model: str,
    output: str,
    stated: tuple[str, ...],
    engine: str,
    scheme: str,
    method: str,
    per_tensor: bool,
    keep_float: tuple[str, ...],
    int16: tuple[str, ...],
    shapes: tuple[str, ...],
    inputs: InputRequest,
) -> int:
    import os

    from qverify.cli.live_progress import progress_bars
    from qverify.errors import UsageError
    from qverify.onnx_model.quantizer import QuantizeOptions
    from qverify.session.models import parse_shapes
    from qverify.session.other_jobs.quantize import quantize_as_stated, quantize_file
    from qverify.session.other_jobs.quantize_with import quantize_with
    from qverify.session.vendor_quantized import states_itself
    from qverify.vendor_quantization import Quantized

    if os.path.exists(output) and os.path.exists(model) and os.path.samefile(output, model):
        raise UsageError(f"output {output} is the model itself, which would be overwritten; give another file")
    require_writable("-o", output)
    if stated and engine:
        raise UsageError("--from and --with each say what quantizes; give one")
    if stated and inputs.files is not None:
        raise UsageError("--from states the ranges; leave out -i")
    options = QuantizeOptions(scheme, method, not per_tensor, _names(keep_float), _names(int16), parse_shapes(shapes))

    def make(watch: Callable[[str, int, int], None] | None) -> QuantizedFile | Quantized:
        if stated or states_itself(model):
            return quantize_as_stated(model, stated, output)
        if engine:
            built = quantize_with(model, engine, inputs, output)
            files.extend(built.files)
            return built.quantized
        return quantize_file(model, inputs, output, options, watch)

    files = [*(stated or [model])]
    if hand_over(make):
        return 0
    with progress_bars() as watch:
        result = make(watch)
    if isinstance(result, Quantized):
        return _print_stated(output, result, files)
    _print_result(output, result, shlex.join(["-i", str(inputs.files), *inputs.words]))
    return 0


def _print_stated(output: str, made: Quantized, files: Sequence[str]) -> int:
    """Prints from what the quantized ONNX was written, what the toolkit changed, and the next command."""
    say(f"{output}: {len(made.onnx)} bytes, quantized as {', '.join(files)} states")
    for line in made.changes:
        say(f"  {line}")
    arithmetic = f" --arithmetic {made.arithmetic}" if made.arithmetic else ""
    say_command(f"qverify -m {shlex.quote(output)}{arithmetic}")
    return 0


def _names(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.split(",") if name)


def _print_result(output: str, result: QuantizedFile, inputs: str) -> None:
    """Prints the result. inputs: the words that give the main job the same inputs."""
    from qverify.plural import count
    from qverify.renderers import drafts

    left = f", {len(result.left_out)} left out" if result.left_out else ""
    say(f"{output}: {result.size_bytes} bytes, calibrated on {count(result.used, 'frame')}{left}")
    for source, why in result.left_out[:MAX_LISTED]:
        say(f"left out: {source}: {why}")
    if draft := drafts.render(result.drafts):
        click.echo(draft)
    beside = f"beside the float model, {count(result.compared, 'frame')}: "
    if several := len(result.losses) > 1:
        say(f"{beside}{len(result.losses)} outputs, the worst first")
    for loss in sorted(result.losses, key=lambda loss: loss.cosine):
        top = "" if loss.top1 is None else f", the same largest value in {loss.top1} of {count(loss.items, 'item')}"
        say(f"{'  ' if several else beside}{loss.name}: cosine {loss.cosine:.5f}{top}")
    if result.not_compared:
        say(f"not compared with the float model (not finite, or of another shape): {', '.join(result.not_compared)}")
    if result.blocker:
        say(f"qverify cannot compile it: {result.blocker}")
    else:
        name = shlex.quote(output)
        say_command(
            f"next: qverify compile {name} -o model.bin && qverify -m {name},model.bin -b local -r True {inputs}"
        )
