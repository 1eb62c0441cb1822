"""The options that choose what runs as reference, simulator and further sides."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from qverify.cli.numbers import Finite

ONNXRUNTIME = "onnxruntime"


class SimulatorChoice(click.ParamType[Any]):
    """True or False, or the text of an engine that runs in the simulator's place."""

    name = "boolean or engine"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool | str:
        """Returns a bool for the words of a bool, else the text."""
        if isinstance(value, bool):
            return value
        try:
            return bool(click.BOOL.convert(value, param, ctx))
        except click.BadParameter:
            if not value.strip():
                raise
            return str(value)


QUANTIZATION = click.option(
    "--quantization",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="what a vendor's toolkit wrote of how it quantized the float ONNX of -m (rknn: NAME.quantization.cfg; sophgo: "
    "NAME_tpu.mlir); may be repeated",
)
SIDES = (
    click.option(
        "--run-sim",
        "-s",
        default=True,
        type=SimulatorChoice(),
        metavar="BOOLEAN|ENGINE",
        show_default=True,
        help="run the simulator (-s True|False), or an engine in its place (-s rknn)",
    ),
    click.option(
        "--reference",
        default=ONNXRUNTIME,
        metavar="ENGINE",
        show_default=True,
        help="what runs the quantized ONNX as the reference: onnxruntime, or an engine on this host in its place: NAME or "
        "NAME,KEY=VALUE,...",
    ),
    click.option(
        "--simulator",
        "simulators",
        multiple=True,
        metavar="ENGINE",
        help="an engine on this host as a further side, such as a vendor's simulator: NAME or NAME,KEY=VALUE,..., where NAME is "
        "an engine (qverify boards runner list) or a table [engines.NAME] of boards.toml; may be repeated",
    ),
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


def side_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options of the sides on this host. The command receives `run_sim` and `run_reference`, whether qverify's own
    run, and `simulators`, the engines that run in their place or beside them."""

    @wraps(command)
    def wrapper(run_sim: bool | str, reference: str, simulators: tuple[str, ...], **others: Any) -> int:
        if isinstance(run_sim, str):
            simulators, run_sim = (run_sim, *simulators), False
        if reference != ONNXRUNTIME:
            simulators = (reference, *simulators)
        is_ours = reference == ONNXRUNTIME
        return command(run_sim=run_sim, run_reference=is_ours, simulators=simulators, **others)

    for option in reversed(SIDES):
        wrapper = option(wrapper)
    return wrapper
