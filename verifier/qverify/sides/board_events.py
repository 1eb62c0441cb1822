"""What a board says of its runs: digests of events, tensors that do not match theirs, numbers, troubles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from qverify_agents.errors import Contradiction, LinkError
from qverify_agents.protocol.messages import NodeEvent

from qverify.tensors.recording import Array

MOST_QUOTED = 8
TROUBLE = re.compile(r"(?i)error|fail|out of memory|oom|thermal|throttl|segfault|oops|panic|watchdog|timeout")


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


def quote_troubles(lines: Iterable[str]) -> list[str]:
    """Returns notes that quote the lines of a board's console that tell of trouble, the first few."""
    troubles = [line for line in lines if TROUBLE.search(line)]
    return [f"the board's console printed: {line}" for line in troubles[:MOST_QUOTED]]


def number_of(value: object) -> float | None:
    """Returns a fact as a finite number, or None."""
    finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if finite else None  # type: ignore[arg-type]
