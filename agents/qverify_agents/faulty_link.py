"""A link that damages the bytes that pass through it, reproducibly by a seed; for tests, and to show the effect of a
noisy wire."""

from __future__ import annotations

import random
import time

from qverify_agents.deadline import Deadline
from qverify_agents.interfaces import Link

KINDS = ("none", "drop", "flip", "insert", "duplicate", "reorder", "stall", "half-close", "disconnect")


class FaultyLink:
    """A Link that damages data.

    Args:
        inner: the link that is damaged.
        kind: drop (the end of the data is lost), flip (one bit is inverted), insert (random bytes are inserted),
            duplicate (the data arrives twice), reorder (the second part arrives first), stall (nothing passes any
            more), half-close (the agent reads the end of its input, or the host reads the end of the agent's output) or
            disconnect.
        seed: seed of the random numbers.
        probability: probability of a fault for each write and each read.
        after_bytes: number of bytes that pass before the first fault.
    """

    def __init__(self, inner: Link, kind: str, seed: int = 0, probability: float = 0.15, after_bytes: int = 0):
        assert kind in KINDS
        lossy = inner.ahead == 0  # a link that may lose bytes is slow, so its own patience is kept
        self.piece_bytes, self.patience_s = min(20_000, inner.piece_bytes), inner.patience_s if lossy else 0.1
        self.packs, self.ahead = lossy and inner.packs, 0
        self._inner, self._kind, self._random = inner, kind, random.Random(seed)
        self._probability, self._undamaged_bytes, self._stalled = probability, after_bytes, False
        self.output_before = str(getattr(inner, "output_before", ""))
        self._input_ended = False  # whether the agent has read the end of its input
        self.faults = 0  # number of faults so far

    def _damage(self, data: bytes) -> bytes:
        self._undamaged_bytes -= len(data)
        if not data or self._undamaged_bytes >= 0 or self._random.random() >= self._probability:
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
                self._input_ended = end is not None and self._random.random() < 0.5
                if self._input_ended and end is not None:
                    end()
                self._stalled = not self._input_ended
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
            damaged = self._damage(data)
            if damaged and not self._stalled:
                return damaged

    def write(self, data: bytes, deadline: Deadline) -> None:
        damaged = self._damage(data)
        if not self._stalled and not self._input_ended:
            self._inner.write(damaged, deadline)

    def why_closed(self) -> str:
        return "the link was cut" if self._kind == "disconnect" and self._stalled else self._inner.why_closed()

    def close(self) -> None:
        self._inner.close()
