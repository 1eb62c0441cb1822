"""Ratio of the two tensors' norms, |b| / |a|: 1 if both are zero, infinite if only a is. A cosine does not see it."""

from __future__ import annotations

import math

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "norm_ratio"


class Measure:
    def __init__(self, context: Context):
        self.aa = self.bb = self.dd = 0.0

    def add(self, block: Block) -> None:
        self.aa += block.sum_of("aa")
        self.bb += block.sum_of("bb")
        self.dd += block.sum_of("d")

    def result(self) -> float:
        if self.dd == 0:
            return 1.0
        if not (math.isfinite(self.aa) and math.isfinite(self.bb)):
            return math.nan
        return math.sqrt(self.bb) / math.sqrt(self.aa) if self.aa else math.inf
