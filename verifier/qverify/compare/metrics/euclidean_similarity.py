"""Euclidean similarity: 1 - |a - b| / |(a + b) / 2|, 1 if both are equal; Sophgo's npz_tool decides by it. A cosine does not
see a scale, this does."""

from __future__ import annotations

import math

import numpy as np

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "euclidean_similarity"


class Measure:
    def __init__(self, context: Context):
        self.apart = self.middle = 0.0

    def add(self, block: Block) -> None:
        self.apart += block.sum_of("dd")
        with np.errstate(invalid="ignore", over="ignore"):
            mean = (block.a + block.b) / 2
            self.middle += block.weighted(mean * mean)

    def result(self) -> float:
        if self.apart == 0:
            return 1.0
        if not math.isfinite(self.apart) or self.middle == 0:
            return -math.inf
        return 1.0 - math.sqrt(self.apart) / math.sqrt(self.middle) if math.isfinite(self.middle) else math.nan
