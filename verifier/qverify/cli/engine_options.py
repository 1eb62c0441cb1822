"""The options of a reference engine, for commands other than the main job."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from qverify.cli.numbers import Finite

QUANTIZATION = click.option(
    "--quantization",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="what a vendor's toolkit wrote of how it quantized the float ONNX of -m (rknn: NAME.quantization.cfg; sophgo: "
    "NAME_tpu.mlir); may be repeated",
)
OPTIONS = (
    click.option(
        "--reference-engine",
        multiple=True,
        metavar="ENGINE",
        help="what runs an ONNX with a vendor's own operators, as in the main job",
    ),
    click.option(
        "--reference-python", multiple=True, metavar="COMMAND", help="the Python that runs the reference engine"
    ),
    click.option(
        "--reference-timeout",
        "reference_timeout_s",
        type=Finite(0.1, 1e6),
        default=900.0,
        show_default=True,
        help="seconds for each run of the reference engine",
    ),
)


def engine_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as one `engine` (session.request.RequestedEngine)."""

    @wraps(command)
    def wrapper(**others: Any) -> int:
        from qverify.session.request import RequestedEngine

        names, pythons = others.pop("reference_engine"), others.pop("reference_python")
        timeout_s = others.pop("reference_timeout_s")
        if pythons and not names:
            raise click.UsageError("--reference-python runs --reference-engine; give that, too")
        return command(engine=RequestedEngine(names, pythons, timeout_s), **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper
