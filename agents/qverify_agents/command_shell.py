"""A board's shell behind a command of this machine: `ssh HOST`, `podman exec -i NAME sh -c`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qverify_agents.capabilities import Done
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed
from qverify_agents.process_stream import ProcessStream

MOST_OUTPUT = 1 << 20  # bytes of one command's answer


class CommandShell:
    """prefix: argv that the command line is appended to as one word. at_close: called once, after the last stream ended."""

    def __init__(self, prefix: Sequence[str], at_close: Callable[[], None] | None = None):
        self._prefix, self._streams, self._at_close = list(prefix), list[ProcessStream](), at_close

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> Done:
        stream = ProcessStream([*self._prefix, command])
        try:
            out = bytearray()
            try:
                stream.write(stdin, deadline)
                stream.end_of_input()
            except LinkClosed:
                pass  # it ended before it read all; its status says why
            while (came := stream.read(deadline)) and len(out) < MOST_OUTPUT:
                out += came
            return Done(stream.wait(deadline), bytes(out), stream.errors().encode())
        finally:
            stream.close()

    def start(self, command: str, deadline: Deadline) -> ProcessStream:
        deadline.left()
        stream = ProcessStream([*self._prefix, command])
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        if self._at_close is not None:
            self._at_close()
            self._at_close = None
