"""The options of sequences: networks whose outputs are inputs of the next step."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

MAX_STEPS = 65536
OPTIONS = (
    click.option(
        "--steps",
        type=click.IntRange(1, MAX_STEPS),
        metavar="N",
        help="verify N steps of a network with a state, whose outputs are inputs of the next step; -i has the inputs of each step: a folder, or a .npy with a leading axis of steps",
    ),
    click.option(
        "--feed",
        type=click.Choice(("both", "forced", "free")),
        help="whose state the sides get in each step: the reference's (forced), the board's own (free)  [default: both, each judged]",
    ),
    click.option(
        "--decode",
        metavar="MODEL[,MODEL.bin]",
        default="",
        help="the network of all steps but the first: -m is then the prefill, whose outputs are its states",
    ),
)


def sequence_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as one `sequence` (sequences.sequence_request.SequenceRequest), None without
    --steps; it also takes `inputs`. It must be the innermost of the decorators that read options."""

    @wraps(command)
    def wrapper(steps: int | None, feed: str | None, decode: str, **others: Any) -> int:
        from qverify.sequences.sequence_request import sequence_request

        sequence = sequence_request(steps, feed, decode, others["inputs"].loop)
        return command(sequence=sequence, **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper
