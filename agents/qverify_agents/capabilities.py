"""What a link and a board declare."""

from __future__ import annotations

from typing import Protocol

from qverify_agents.deadline import Deadline

ALL = frozenset({"finals", "per_node", "inject", "digests"})


class Link(Protocol):
    """A byte stream to an agent. read gives b"" only when the other end closed."""

    def read(self, deadline: Deadline) -> bytes: ...
    def write(self, data: bytes, deadline: Deadline) -> None: ...
    def close(self) -> None: ...
    def why_closed(self) -> str: ...
