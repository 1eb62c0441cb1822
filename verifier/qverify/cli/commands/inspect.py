"""Shows the contents of a quantized ONNX, a model.bin or a .tflite: nodes, tensors, scales, zero points, and the real
values that they cover. With TENSOR, one tensor (or the output of one ONNX node) in full. Nothing is run."""

from __future__ import annotations

import click

from qverify.cli.view_options import listing_screen


@click.command(help=__doc__)
@click.argument("model", type=click.Path(dir_okay=False))
@click.argument("tensor", required=False)
@click.option("--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input")
def command(model: str, tensor: str | None, shapes: tuple[str, ...]) -> int:
    from qverify.renderers.model_facts import render_model, render_tensor
    from qverify.session.models import parse_shapes
    from qverify.session.other_jobs.inspect_model import inspect_model

    facts = inspect_model(model, parse_shapes(shapes))
    view = listing_screen()
    click.echo(render_model(facts, view) if tensor is None else render_tensor(facts.tensor(tensor), view))
    return 0
