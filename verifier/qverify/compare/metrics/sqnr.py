"""Signal-to-quantization-noise ratio: 10 log10(sum a^2 / sum (a-b)^2); infinite if both are equal."""

from __future__ import annotations

import math

from qverify.arithmetic.functions64 import log10_of
from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "sqnr_db"


class Measure:
    def __init__(self, context: Context):
        self.signal = self.noise = 0.0

    def add(self, block: Block) -> None:
        self.signal += block.sum_of("aa")
        self.noise += block.sum_of("dd")

    def result(self) -> float:
        if self.noise == 0:
            return math.inf
        if not math.isfinite(self.noise) or self.signal == 0:
            return -math.inf
        return 10 * log10_of(self.signal / self.noise) if math.isfinite(self.signal) else math.nan
