"""Runs a command line on a board to its end, over any stream."""

from __future__ import annotations

import contextlib
from typing import Protocol

from qverify_agents.capabilities import CommandResult, Link
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed

MOST_OUTPUT = 1 << 20  # bytes of its answer


class RunningCommand(Link, Protocol):
    """A Link to a command. end_of_input: closes its stdin. status: waits for its exit status. errors: the start of its
    stderr."""

    def end_of_input(self) -> None: ...
    def status(self, deadline: Deadline) -> int: ...
    def errors(self) -> bytes: ...


def run_to_end(stream: RunningCommand, deadline: Deadline, stdin: bytes) -> CommandResult:
    """Runs the command with this stdin and closes the stream. Raises LinkClosed if its output exceeds MOST_OUTPUT
    bytes."""
    try:
        with contextlib.suppress(LinkClosed):  # it ended before it read all; its status says why
            stream.write(stdin, deadline)
            stream.end_of_input()
        out = bytearray()
        while chunk := stream.read(deadline):
            out += chunk
            if len(out) > MOST_OUTPUT:
                raise LinkClosed(f"a command on the board wrote more than {MOST_OUTPUT} bytes, the most that is read")
        return CommandResult(stream.status(deadline), bytes(out), stream.errors())
    finally:
        stream.close()
