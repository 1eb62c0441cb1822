"""What a link and a board declare."""

from __future__ import annotations

from typing import Protocol

from qverify_agents.deadline import Deadline

ALL = frozenset({"finals", "per_node", "inject", "digests"})


class Link(Protocol):
    """A byte stream to an agent. read gives at least one byte, b"" only when the other end closed, LinkTimeout at the
    deadline. piece_bytes: how much of a content one frame takes. patience_s: an answer that has not begun to come by
    then is asked for again."""

    piece_bytes: int
    patience_s: float

    def read(self, deadline: Deadline) -> bytes: ...
    def write(self, data: bytes, deadline: Deadline) -> None: ...
    def close(self) -> None: ...
    def why_closed(self) -> str: ...
