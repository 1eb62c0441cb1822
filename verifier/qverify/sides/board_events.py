"""The digests in a board's events, and tensors that do not match theirs."""

from __future__ import annotations

from collections.abc import Iterable

from qverify_agents.errors import Contradiction, LinkError
from qverify_agents.protocol.messages import NodeEvent

from qverify.tensors.recording import Array


class DigestMismatch(LinkError):
    """Raised where pulled tensors do not match their digests, while the board still works. came: the other tensors,
    which match. broken: for each failed tensor, the reason."""

    def __init__(self, came: dict[str, Array], broken: dict[str, str]):
        super().__init__(next(iter(broken.values())))
        self.came, self.broken = came, broken


def note_digest(digests: dict[str, str], event: NodeEvent) -> None:
    """Adds an event's digest. Raises Contradiction where the tensor already has another."""
    if digests.setdefault(event.tensor, event.digest) != event.digest:
        raise Contradiction(f"{event.tensor}: digest {digests[event.tensor]}, and digest {event.digest}, in one run")


def digests_of(events: Iterable[NodeEvent]) -> dict[str, str]:
    """Returns the digest of every tensor. Raises Contradiction where one has two."""
    digests: dict[str, str] = {}
    for event in events:
        note_digest(digests, event)
    return digests
