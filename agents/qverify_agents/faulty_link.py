"""A link that damages what passes through it, reproducibly by a seed: for tests and for showing the effect of a noisy
wire."""

from __future__ import annotations

import random
import time

from qverify_agents.capabilities import Link
from qverify_agents.deadline import Deadline

KINDS = ("none", "drop", "flip", "insert", "duplicate", "reorder", "stall", "half-close", "disconnect")


class FaultyLink:
    """A Link with faults. kind: drop (the end of a write is lost), flip (a bit), insert (junk), duplicate (a write
    comes twice), reorder (the second half comes first), stall (nothing comes any more), half-close (the agent sees the
    end of its input, or we see the end of its output), disconnect. probability: per write and per read. after_bytes:
    faults begin after so many."""

    def __init__(self, inner: Link, kind: str, seed: int = 0, probability: float = 0.15, after_bytes: int = 0):
        assert kind in KINDS
        lossy = inner.ahead == 0  # slow, too: it knows its own patience
        self.piece_bytes, self.patience_s = min(20_000, inner.piece_bytes), inner.patience_s if lossy else 0.1
        self.packs, self.ahead = lossy and inner.packs, 0
        self._inner, self._kind, self._random = inner, kind, random.Random(seed)
        self._probability, self._quiet_bytes, self._stalled = probability, after_bytes, False
        self.said_before = str(getattr(inner, "said_before", ""))
        self._deaf = False  # the agent has seen the end of its input
        self.faults = 0

    def _spoil(self, data: bytes) -> bytes:
        self._quiet_bytes -= len(data)
        if not data or self._quiet_bytes >= 0 or self._random.random() >= self._probability:
            return data
        self.faults += 1
        at = self._random.randrange(len(data))
        match self._kind:
            case "drop":
                return data[:at]
            case "flip":
                return data[:at] + bytes([data[at] ^ 1 << self._random.randrange(8)]) + data[at + 1 :]
            case "insert":
                return data[:at] + self._random.randbytes(1 + self._random.randrange(40)) + data[at:]
            case "duplicate":
                return data + data
            case "reorder":
                return data[at:] + data[:at]
            case "stall":
                self._stalled = True
            case "half-close":
                end = getattr(self._inner, "end_of_input", None)
                self._deaf = end is not None and self._random.random() < 0.5
                if self._deaf and end is not None:
                    end()
                self._stalled = not self._deaf
            case "disconnect":
                self._inner.close()
                self._stalled = True
        return data

    def read(self, deadline: Deadline) -> bytes:
        while True:
            if self._stalled:
                if self._kind in ("disconnect", "half-close"):
                    return b""
                time.sleep(min(0.01, deadline.left()))
                continue
            data = self._inner.read(deadline)
            if not data:
                return b""
            spoiled = self._spoil(data)
            if spoiled and not self._stalled:
                return spoiled

    def write(self, data: bytes, deadline: Deadline) -> None:
        spoiled = self._spoil(data)
        if not self._stalled and not self._deaf:
            self._inner.write(spoiled, deadline)

    def why_closed(self) -> str:
        return "the link was cut" if self._kind == "disconnect" and self._stalled else self._inner.why_closed()

    def close(self) -> None:
        self._inner.close()
