"""Quantizes a float ONNX with onnxruntime's quantizer: ranges from your pictures or arrays, QDQ, weights per channel.
Then compares it with the float model on the same inputs, and says what to type next. With --from, quantizes it as a vendor's
toolkit did, with the scales that its files state; with --with, runs the toolkit first. An .espdl of esp-ppq is written as the
quantized ONNX that it is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say, say_command
from qverify.cli.takes import takes_all

if TYPE_CHECKING:
    from qverify.options.given import Given
    from qverify.session.other_jobs.quantize import QuantizedFile
    from qverify.vendor_quantization import Quantized

MAX_LISTED = 5  # frames that were left out


@click.command(help=__doc__)
@takes_all("quantize")
def command(given: Given) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.session.requests.models import quantize_job
    from qverify.vendor_quantization import Quantized

    job = quantize_job(given)
    with progress_bars() as watch:
        result = job.run(watch)
    if isinstance(result, Quantized):
        return _print_stated(job.output, result, job.files)
    _print_result(job.output, result, shlex.join(["-i", str(job.inputs.files), *job.inputs.words]))
    return 0


def _print_stated(output: str, made: Quantized, files: Sequence[str]) -> int:
    """Prints from what the quantized ONNX was written, what the toolkit changed, and the next command."""
    say(f"{output}: {len(made.onnx)} bytes, quantized as {', '.join(files)} states")
    for line in made.changes:
        say(f"  {line}")
    arithmetic = f" --arithmetic {made.arithmetic}" if made.arithmetic else ""
    say_command(f"qverify -m {shlex.quote(output)}{arithmetic}")
    return 0


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
