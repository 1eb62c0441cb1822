"""Reads what a board reports about its runs: digests in events, numbers, and console lines that indicate trouble."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from qverify_agents.errors import Contradiction, LinkError
from qverify_agents.protocol.messages import NodeEvent

from qverify.tensors.recording import Array

MAX_QUOTED = 8  # console lines in the notes
TROUBLE = re.compile(r"(?i)error|fail|out of memory|oom|thermal|throttl|segfault|oops|panic|watchdog|timeout")


class DigestMismatch(LinkError):
    """Raised if pulled tensors do not match their digests, while the board still works. matching: the other tensors,
    by name. broken: the reason for each tensor that does not match."""

    def __init__(self, matching: dict[str, Array], broken: dict[str, str]):
        super().__init__(next(iter(broken.values())))
        self.matching, self.broken = matching, broken


def note_digest(digests: dict[str, str], event: NodeEvent) -> None:
    """Adds an event's digest. Raises Contradiction if the tensor already has a different one."""
    if digests.setdefault(event.tensor, event.digest) != event.digest:
        raise Contradiction(f"{event.tensor}: digest {digests[event.tensor]}, and digest {event.digest}, in one run")


def digests_of(events: Iterable[NodeEvent]) -> dict[str, str]:
    """Returns the digest of every tensor. Raises Contradiction if a tensor has two different ones."""
    digests: dict[str, str] = {}
    for event in events:
        note_digest(digests, event)
    return digests


def quote_troubles(lines: Iterable[str]) -> list[str]:
    """Returns notes that quote the first MAX_QUOTED console lines of the board that indicate trouble."""
    troubles = [line for line in lines if TROUBLE.search(line)]
    return [f"the board's console printed: {line}" for line in troubles[:MAX_QUOTED]]


def finite_number(value: object) -> float | None:
    """Returns the value as a float, or None if it is not a finite number."""
    finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if finite else None  # type: ignore[arg-type]
