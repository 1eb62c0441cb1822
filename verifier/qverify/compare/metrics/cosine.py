"""Cosine of the angle between the two tensors as vectors; 1 if both are zero, 0 if only one is."""

from __future__ import annotations

import math

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "cosine"


class Measure:
    def __init__(self, context: Context):
        self.aa = self.bb = self.ab = self.dd = 0.0

    def add(self, block: Block) -> None:
        self.aa += block.sum_of("aa")
        self.bb += block.sum_of("bb")
        self.ab += block.sum_of("ab")
        self.dd += block.sum_of("d")

    def result(self) -> float:
        if self.dd == 0:
            return 1.0
        if not all(map(math.isfinite, (self.aa, self.bb, self.ab))):
            return math.nan
        if self.aa == 0 or self.bb == 0:
            return 0.0
        return max(-1.0, min(1.0, self.ab / (math.sqrt(self.aa) * math.sqrt(self.bb))))
