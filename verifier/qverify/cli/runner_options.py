"""The options of a board that runs something else than qvrt, the same on every command that drives one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from qverify_agents.worker import RUNTIMES

OPTIONS = (
    click.option(
        "--runner",
        metavar="COMMAND",
        help="run this on the board, not qvrt: 'tool --model {model} --input {input} --out {out}' (docs: Run your own tool)",
    ),
    click.option(
        "--runtime",
        metavar="NAME",
        help="what computes on the board: qvrt runs model.bin (default), onnxruntime the quantized ONNX, litert a .tflite; or a "
        "runner (qverify boards runner list)",
    ),
    click.option(
        "--runner-option",
        "runner_option",
        multiple=True,
        metavar="KEY=VALUE",
        help="an option of the runner: success=, timing=, profile=, dtype=, environment=NAME=VALUE ...; may be repeated",
    ),
)


def runner_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options; the command gets them as `runner`, pairs of a key and a value; a runtime that qverify's worker drives is an
    option of the board's address (link_options, which must be the outer decorator)."""

    @wraps(command)
    def wrapper(runner: str | None, runtime: str | None, runner_option: tuple[str, ...], **others: Any) -> int:
        if runtime is not None and runner is not None:
            raise click.UsageError(f"--runtime {runtime} and --runner each say what computes on the board; give one")
        if runtime in RUNTIMES:
            others["reach"]["runtime"], runtime = runtime, None
        words = [("runtime", runtime)] if runtime is not None else []
        words += [("command", runner)] if runner is not None else []
        for one in runner_option:
            key, equal, value = one.partition("=")
            if not equal or not key:
                raise click.UsageError(f"--runner-option {one}: wanted KEY=VALUE")
            words.append((key, value))
        return command(runner=tuple(words), **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper
