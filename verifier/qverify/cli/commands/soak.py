"""Runs one model on one board for a time, holds every run to the simulator, survives lost connections, and writes as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.board_options import board_option, link_options
from qverify.cli.input_options import input_options
from qverify.cli.numbers import Finite
from qverify.cli.say_line import say

if TYPE_CHECKING:
    from qverify.inputs.sources import InputRequest
    from qverify.session.soak import SoakResult


def _not_waiting(path: str, flags: int) -> int:
    """A pipe that nobody reads is refused, not waited for."""
    import os

    return os.open(path, flags | os.O_NONBLOCK, 0o644)


@click.command(help=__doc__)
@click.option("-m", "--model", "models", required=True, help="comma list: quant.onnx, model.bin")
@board_option(required=True)
@click.option("--for", "seconds", type=Finite(0.1, 1e7), required=True, metavar="SECONDS")
@click.option(
    "--every",
    "every_s",
    type=Finite(0, 1e6),
    default=0.0,
    metavar="SECONDS",
    help="a run starts so often, not at once after the last",
)
@click.option("--log", "path", metavar="FILE", help="one JSON object a run, after one that says what ran; appended")
@input_options
@link_options()
def command(
    models: str,
    board: str,
    seconds: float,
    every_s: float,
    path: str | None,
    inputs: InputRequest,
    deadline_s: float,
    reach: dict[str, str],
) -> int:
    from contextlib import nullcontext
    from io import FileIO

    from qverify.cli.live_progress import progress_bars
    from qverify.errors import UsageError
    from qverify.session.soak import Soak, soak

    if path == "":
        raise click.UsageError("an empty --log (an unset shell variable?)")
    try:
        log = FileIO(path, "a", opener=_not_waiting) if path else None
    except OSError as error:
        raise UsageError(f"--log {path}: {error.strerror}") from error
    with log or nullcontext(), progress_bars() as watch:

        def tell(passed_s: float, found: SoakResult) -> None:
            if watch is not None:
                watch("seconds", min(int(passed_s), int(seconds)), max(1, int(seconds)))

        asked = Soak([p for p in models.split(",") if p], board, seconds, inputs, every_s, deadline_s, reach)
        found = soak(asked, log, tell)
    hot = "" if found.hottest_c is None else f", at most {found.hottest_c:g} degrees Celsius"
    slow = "" if found.slowest_mhz is None else f", at least {found.slowest_mhz:g} MHz"
    gone = "; it was not there at the end" if found.gone else ""
    first = f", the first at {found.first_wrong}" if found.wrong else ""
    scope = f"; {found.scope}" if found.scope else ""
    say(f"{found.runs} runs, {found.wrong} wrong{first}; {found.lost} connections lost{hot}{slow}{gone}{scope}")
    if found.cut:
        raise KeyboardInterrupt
    if found.unwritten:
        raise UsageError(f"--log {path}: cannot be written: {found.unwritten}; the runs above are all there were")
    return found.exit_status
