"""The options for a board that runs something other than qvrt, which every command that uses such boards has."""

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
        metavar="ENGINE",
        help="what computes on the board: qvrt runs model.bin (default), onnxruntime the quantized ONNX, litert a .tflite, or "
        "another engine (qverify boards runner list); NAME or NAME,KEY=VALUE,...",
    ),
    click.option(
        "--runner-option",
        "runner_option",
        multiple=True,
        metavar="KEY=VALUE",
        help="an option of the runner: success=, timing=, profile=, dtype=, environment=NAME=VALUE ...; may be repeated",
    ),
)


def _split(text: str, reach: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the pairs of `NAME,KEY=VALUE,...`. Those of a runtime of qverify's own worker become options of the board's
    address (`reach`), and nothing is returned."""
    from qverify.session.chosen_sides import engine_words

    pairs = engine_words(text)
    if pairs[0][1] not in RUNTIMES:
        return pairs
    reach |= dict(pairs)
    return ()


def runner_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as `runner`, pairs of key and value. A runtime that qverify's own
    worker runs becomes an option of the board's address instead (`reach` of link_options, which must be the outer
    decorator)."""

    @wraps(command)
    def wrapper(runner: str | None, runtime: str | None, runner_option: tuple[str, ...], **others: Any) -> int:
        if runtime is not None and runner is not None:
            raise click.UsageError(f"--runtime {runtime} and --runner each say what computes on the board; give one")
        pairs = list(_split(runtime, others["reach"])) if runtime is not None else []
        pairs += [("command", runner)] if runner is not None else []
        for text in runner_option:
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise click.UsageError(f"--runner-option {text}: wanted KEY=VALUE")
            pairs.append((key, value))
        return command(runner=tuple(pairs), **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper
