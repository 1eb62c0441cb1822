"""The interfaces of a link and of a shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qverify_agents.deadline import Deadline

ALL = frozenset({"finals", "per_node", "inject", "digests"})


class Link(Protocol):
    """A byte stream to an agent. read returns at least one byte, b"" only if the other end closed, and raises
    LinkTimeout at the deadline. piece_bytes: how much of a content one frame carries. patience_s: a request whose
    answer has not begun by then is sent again. packs: whether the link is so slow that compressing contents and
    collecting events pays. ahead: how many requests may be sent before earlier answers came; 0 where bytes get lost."""

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
    """A command that ended. status: its exit status, -1 if a signal ended it and the other end does not say which."""

    status: int
    out: bytes
    err: bytes


class Shell(Protocol):
    """A POSIX shell on a board. run and start take one command line. close ends everything that was started."""

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult: ...
    def start(self, command: str, deadline: Deadline) -> Link: ...
    def close(self) -> None: ...
