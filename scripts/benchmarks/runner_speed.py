"""Measures how much longer a runner's run takes (connect, send by hash, run, fetch, clean up) than the same command by
hand through ssh."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from qverify_agents.command_board import CommandBoard, CommandLine
from qverify_agents.deadline import Deadline

from tests.board_kinds import Place, Unavailable, place

KINDS = ("openssh", "dropbear")
TOOL_S, BYTES = 0.5, 100_000
TOOL = f"sleep {TOOL_S}; head -c {BYTES} /dev/zero"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench runners", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    figures: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        with contextlib.ExitStack() as stack:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qv", ignore_cleanup_errors=True)))
            try:
                board_place = stack.enter_context(place(kind, work))
            except Unavailable as error:
                print(f"{kind}: not measured: {error}")
                continue
            figures[kind] = measure(board_place, work / kind / "config", options.rounds)
            row = figures[kind]
            print(
                f"{kind}: by hand {row['by_hand_s']:.2f} s, a runner's run {row['runner_s']:.2f} s "
                f"({row['runner_s'] - row['by_hand_s']:+.2f} s); on an open connection {row['open_s']:.2f} s"
            )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


def measure(board_place: Place, config: Path, rounds: int) -> dict[str, float]:
    """Returns the medians in seconds, measured in turns: of the same command by hand, of a whole run by the runner, and
    of its part on an open connection."""
    model = bytes(300_000)
    opened: list[float] = []

    def by_hand() -> None:
        subprocess.run(["ssh", "-F", config, "testboard", TOOL], capture_output=True, check=True)

    def by_runner() -> None:
        board = CommandBoard(board_place.address, 60)
        try:
            sha256 = board.put(model)
            start = time.perf_counter()
            running = board.start(CommandLine(f"{TOOL} >out.bin", {"model.bin": sha256}))
            running.wait()
            running.fetch(io.BytesIO(), Deadline(30))
            running.close()
            opened.append(time.perf_counter() - start)
        finally:
            board.close()

    seconds: dict[str, list[float]] = {"by_hand_s": [], "runner_s": []}
    by_runner()  # sends the agent and the model
    opened.clear()
    for _ in range(rounds):
        for name, run in (("by_hand_s", by_hand), ("runner_s", by_runner)):
            seconds[name].append(_timed(run))
    return {name: statistics.median(values) for name, values in {**seconds, "open_s": opened}.items()}


def _timed(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
