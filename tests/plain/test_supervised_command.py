"""A supervised command is timed from the mark of its start, however the board's output is cut into pieces."""

from __future__ import annotations

import time

import pytest
from qverify_agents.deadline import Deadline
from qverify_agents.supervised_command import RunningCommandLine

BEGAN, START, END = b"\nqverify:T:began=1\n", b"\nqverify:T:start\n", b"\nqverify:T:status=0\n\nqverify:T:end\n"
PAUSE_S = 0.05


class Pieces:
    """A link that gives these pieces, and waits before the last one."""

    def __init__(self, *pieces: bytes):
        self._pieces = [*pieces]

    def read(self, deadline: Deadline) -> bytes:
        if len(self._pieces) == 1:
            time.sleep(PAUSE_S)
        return self._pieces.pop(0)


@pytest.mark.parametrize(
    "pieces",
    [(BEGAN + START, END), (BEGAN, START, END), (BEGAN, START + b"a line\n", END), (BEGAN + START[:9], START[9:], END)],
)
def test_seconds_begin_with_the_mark_of_the_start(pieces: tuple[bytes, ...]) -> None:
    running = RunningCommandLine(Pieces(*pieces), "T", Deadline(10.0, "board"), lambda: None)  # type: ignore[arg-type]
    assert running.begin() == ""
    running.wait()
    assert running.seconds >= PAUSE_S
    assert running.marks["status"] == "0"
