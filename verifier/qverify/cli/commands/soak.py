"""Runs one model on one board for a time and compares every run with the simulator (on another runtime than qvrt: with
the first run). Lost connections are made again, and each run is logged as it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say
from qverify.cli.takes import takes_all

if TYPE_CHECKING:
    from qverify.options.given import Given
    from qverify.session.other_jobs.soak import SoakResult


def _open_at_once(path: str, flags: int) -> int:
    """Opens a log without waiting, so that a pipe which nobody reads is an error."""
    import os

    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o644)


@click.command(help=__doc__)
@takes_all("soak")
def command(given: Given) -> int:
    from contextlib import nullcontext
    from io import FileIO

    from qverify.cli.live_progress import progress_bars
    from qverify.errors import UsageError
    from qverify.plural import count
    from qverify.session.other_jobs.soak import soak
    from qverify.session.requests.soak import soak_request

    request, path, seconds = soak_request(given), given["path"], given["seconds"]
    try:
        log = FileIO(path, "a", opener=_open_at_once) if path else None
    except OSError as error:
        raise UsageError(f"--log {path}: {error.strerror}") from error
    with log or nullcontext(), progress_bars() as watch:

        def show_progress(passed_s: float, result: SoakResult) -> None:
            if watch is not None:
                watch("seconds", min(int(passed_s), int(seconds)), max(1, int(seconds)))

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
