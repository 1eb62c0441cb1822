"""A command line on a board, run to its end; whatever carries it."""

from __future__ import annotations

import contextlib
from typing import Protocol

from qverify_agents.capabilities import CommandResult, Link
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed

MOST_OUTPUT = 1 << 20  # bytes of its answer


class RunningCommand(Link, Protocol):
    """A Link to a command. end_of_input: nothing more is written. status: once it ended. errors: the start of its stderr."""

    def end_of_input(self) -> None: ...
    def status(self, deadline: Deadline) -> int: ...
    def errors(self) -> bytes: ...


def run_to_end(stream: RunningCommand, deadline: Deadline, stdin: bytes) -> CommandResult:
    """LinkClosed for one that does not stop talking. The stream is closed in any case."""
    try:
        with contextlib.suppress(LinkClosed):  # it ended before it read all; its status says why
            stream.write(stdin, deadline)
            stream.end_of_input()
        out = bytearray()
        while came := stream.read(deadline):
            out += came
            if len(out) > MOST_OUTPUT:
                raise LinkClosed(f"a command of the board wrote more than the {MOST_OUTPUT} bytes that are read of one")
        return CommandResult(stream.status(deadline), bytes(out), stream.errors())
    finally:
        stream.close()
