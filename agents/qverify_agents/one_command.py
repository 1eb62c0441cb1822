"""Runs a command on a board to its end, over any kind of stream."""

from __future__ import annotations

import contextlib
from typing import Protocol

from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed
from qverify_agents.interfaces import CommandResult, Link

MAX_OUTPUT_BYTES = 1 << 20  # of a command's standard output


class RunningCommand(Link, Protocol):
    """A Link to a command. `end_of_input` closes its standard input, `status` waits for its exit status and returns it,
    `errors` returns the start of its standard error."""

    def end_of_input(self) -> None: ...
    def status(self, deadline: Deadline) -> int: ...
    def errors(self) -> bytes: ...


def run_to_end(stream: RunningCommand, deadline: Deadline, stdin: bytes) -> CommandResult:
    """Sends the command this standard input, reads its output to the end and closes the stream. Raises LinkClosed if
    the output is longer than MAX_OUTPUT_BYTES."""
    try:
        with contextlib.suppress(LinkClosed):  # the command ended before it had read everything; its status shows why
            stream.write(stdin, deadline)
            stream.end_of_input()
        out = bytearray()
        while chunk := stream.read(deadline):
            out += chunk
            if len(out) > MAX_OUTPUT_BYTES:
                raise LinkClosed(
                    f"a command on the board wrote more than {MAX_OUTPUT_BYTES} bytes, the most that is read"
                )
        return CommandResult(stream.status(deadline), bytes(out), stream.errors())
    finally:
        stream.close()
