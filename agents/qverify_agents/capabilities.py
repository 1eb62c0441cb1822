"""What a link or a shell declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qverify_agents.deadline import Deadline

ALL = frozenset({"finals", "per_node", "inject", "digests"})


class Link(Protocol):
    """A byte stream to an agent. read gives at least one byte, b"" only when the other end closed, LinkTimeout at the
    deadline. piece_bytes: how much of a content one frame takes. patience_s: an answer that has not begun to come by
    then is asked for again. packs: slow enough that packing contents and gathering events pays. ahead: requests that may
    be sent before the answers to the ones before came; 0 where bytes get lost."""

    piece_bytes: int
    patience_s: float
    packs: bool
    ahead: int

    def read(self, deadline: Deadline) -> bytes: ...
    def write(self, data: bytes, deadline: Deadline) -> None: ...
    def close(self) -> None: ...
    def why_closed(self) -> str: ...


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that ended. status: its exit status, -1 when a signal ended it and the other end does not say which."""

    status: int
    out: bytes
    err: bytes


class Shell(Protocol):
    """A POSIX shell on a board. run and start take one command line. close ends everything started."""

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult: ...
    def start(self, command: str, deadline: Deadline) -> Link: ...
    def close(self) -> None: ...
