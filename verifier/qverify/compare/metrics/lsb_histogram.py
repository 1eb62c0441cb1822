"""Number of elements with b - a = 0, 1, -1, ... LSB. Differences beyond 255 are counted together."""

from __future__ import annotations

import numpy as np

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "lsb_histogram"
REACH = 256


class Measure:
    def __init__(self, context: Context):
        self.context = context
        self.counts = np.zeros(2 * REACH + 1, np.int64)

    def add(self, block: Block) -> None:
        if block.steps is None:
            return
        bins = np.clip(block.steps, -REACH, REACH) + REACH
        self.counts += np.bincount(bins, block.count, 2 * REACH + 1).astype(np.int64)  # exact below 2^53 elements

    def result(self) -> dict[str, int] | None:
        if not self.context.integers:
            return None
        self.counts[REACH] = self.context.elements - (self.counts.sum() - self.counts[REACH])
        labels = {-REACH: f"<{-REACH + 1}", REACH: f">{REACH - 1}"}
        return {
            labels.get(int(p) - REACH, str(int(p) - REACH)): int(self.counts[p]) for p in np.flatnonzero(self.counts)
        }
