"""A board's shell that a command of this machine reaches, such as `ssh HOST` or `podman exec -i NAME sh -c`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qverify_agents.deadline import Deadline
from qverify_agents.interfaces import CommandResult
from qverify_agents.one_command import run_to_end
from qverify_agents.process_stream import ProcessStream


class CommandShell:
    """A Shell (interfaces.py). prefix: arguments to which each command line is appended as one more. at_close: called
    once, after all streams have been closed."""

    def __init__(self, prefix: Sequence[str], at_close: Callable[[], None] | None = None):
        self._prefix, self._streams, self._at_close = list(prefix), list[ProcessStream](), at_close

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        return run_to_end(ProcessStream([*self._prefix, command]), deadline, stdin)

    def start(self, command: str, deadline: Deadline) -> ProcessStream:
        deadline.left()
        stream = ProcessStream([*self._prefix, command])
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        at_close, self._at_close = self._at_close, None
        try:
            for stream in self._streams:
                stream.close()
        finally:
            if at_close is not None:
                at_close()
