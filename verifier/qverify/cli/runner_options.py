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


def _move_python(pairs: list[tuple[str, str]], reach: dict[str, str]) -> None:
    """Moves --python from the options of the board's address to those of an engine of its own, which takes it as python=.
    Raises UsageError for an engine that takes no interpreter, and for two interpreters."""
    from qverify.engines import page

    engine = next((value for key, value in pairs if key in ("runtime", "command")), None)
    if engine is None or "python" not in reach or engine == "qvrt":
        return
    if pairs[0][0] == "command" or "python" not in page(engine).OPTIONS:
        what = "--runner" if pairs[0][0] == "command" else f"--runtime {engine}"
        raise click.UsageError(f"--python {reach['python']}: {what} takes no interpreter; leave it out")
    if given := next((value for key, value in pairs if key == "python"), None):
        raise click.UsageError(f"--python {reach['python']} and python={given} each name the interpreter; give one")
    pairs.append(("python", reach.pop("python")))


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
        _move_python(pairs, others["reach"])
        return command(runner=tuple(pairs), **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper
