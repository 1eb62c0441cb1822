"""Runs one model on one board for a time and compares every run with the simulator (on another runtime than qvrt: with
the first run). Lost connections are made again, and each run is logged as it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.board_options import board_option, link_options
from qverify.cli.engine_options import engine_options
from qverify.cli.input_options import input_options
from qverify.cli.numbers import Finite
from qverify.cli.runner_options import runner_options
from qverify.cli.say_line import say

if TYPE_CHECKING:
    from qverify.inputs.sources import InputRequest
    from qverify.session.other_jobs.soak import SoakResult
    from qverify.session.request import RequestedEngine


def _open_at_once(path: str, flags: int) -> int:
    """Opens a log without waiting, so that a pipe which nobody reads is an error."""
    import os

    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o644)


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
    help="start a run this often, instead of right after the last",
)
@click.option("--log", "path", metavar="FILE", help="append one JSON object per run, after one that describes the soak")
@engine_options
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="KIND:LIMIT",
    help="with --reference-engine: what the first run's final outputs must satisfy, as in the main job",
)
@input_options
@link_options(runtime=False)
@runner_options
def command(
    models: str,
    board: str,
    seconds: float,
    every_s: float,
    path: str | None,
    engine: RequestedEngine,
    gates: tuple[str, ...],
    inputs: InputRequest,
    deadline_s: float,
    reach: dict[str, str],
    runner: tuple[tuple[str, str], ...],
) -> int:
    from contextlib import nullcontext
    from io import FileIO

    from qverify.cli.live_progress import progress_bars
    from qverify.compare.gate_text import parse_gates
    from qverify.compare.options import Options
    from qverify.errors import UsageError
    from qverify.plural import count
    from qverify.session.other_jobs.soak import SoakRequest, soak

    if path == "":
        raise click.UsageError("an empty --log (an unset shell variable?)")
    if gates and not engine.names:
        raise click.UsageError("--gate judges what --reference-engine gives; other runs are compared bit for bit")
    gate_options = parse_gates(gates)
    digits_given = bool({"digits", "rule"} & gate_options.keys())
    options = Options(digits_given=digits_given, named=frozenset(gate_options), **gate_options)
    try:
        log = FileIO(path, "a", opener=_open_at_once) if path else None
    except OSError as error:
        raise UsageError(f"--log {path}: {error.strerror}") from error
    with log or nullcontext(), progress_bars() as watch:

        def show_progress(passed_s: float, result: SoakResult) -> None:
            if watch is not None:
                watch("seconds", min(int(passed_s), int(seconds)), max(1, int(seconds)))

        paths = [p for p in models.split(",") if p]
        request = SoakRequest(paths, board, seconds, inputs, every_s, deadline_s, reach, runner, engine, options)
        result = soak(request, log, show_progress)
    hot = "" if result.hottest_c is None else f", at most {result.hottest_c:g} degrees Celsius"
    slow = "" if result.slowest_mhz is None else f", at least {result.slowest_mhz:g} MHz"
    gone = "; the board was unreachable at the end" if result.gone else ""
    first = f", the first at {result.first_wrong}" if result.wrong else ""
    scope = f"; {result.scope}" if result.scope else ""
    runs, lost = count(result.runs, "run"), count(result.lost, "connection")
    alone = "" if result.reference else ", by which alone they are judged"
    judged = f"differ from the first one{alone}" if result.by_first_run else "wrong"
    by_engine = f"; first run, against the reference engine: {result.reference}" if result.reference else ""
    say(f"{runs}, {result.wrong} {judged}{first}; {lost} lost{hot}{slow}{gone}{scope}{by_engine}")
    if result.cut:
        raise KeyboardInterrupt
    if result.unwritten:
        raise UsageError(f"--log {path}: cannot be written: {result.unwritten}; the soak ended with the runs above")
    return result.exit_status
