"""The interfaces of a link and of a shell, and the features that a board may offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qverify_agents.deadline import Deadline

ALL_FEATURES = frozenset({"finals", "per_node", "inject", "digests"})


class Link(Protocol):
    """A byte stream to an agent. `read` returns at least one byte, or b"" if the other end has closed the stream;
    `read` and `write` raise LinkTimeout at the deadline. `why_closed` returns the reason as a phrase for an error
    message.

    Attributes:
        piece_bytes: the most bytes of a content that one frame carries.
        patience_s: seconds after which a request is sent again if no answer has arrived.
        packs: True if the link is so slow that it pays to compress contents and to send several events in one frame.
        ahead: how many requests may be sent before earlier ones are answered; 0 on a link that may lose bytes.
    """

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
    """The result of a command that has ended. status: its exit status, or -1 if a signal whose number is not known
    ended it. out, err: its standard output and standard error."""

    status: int
    out: bytes
    err: bytes


class Shell(Protocol):
    """A POSIX shell on a board. `run` runs one command line to its end, `start` starts one and returns the link to it,
    `close` ends everything that was started."""

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult: ...
    def start(self, command: str, deadline: Deadline) -> Link: ...
    def close(self) -> None: ...
