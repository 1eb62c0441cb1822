"""Root of the mean of (a - b)^2 of the real values."""

from __future__ import annotations

import math

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "rmse"


class Measure:
    def __init__(self, context: Context):
        self.elements, self.squares = context.elements, 0.0

    def add(self, block: Block) -> None:
        self.squares += block.sum_of("dd")

    def result(self) -> float:
        return math.sqrt(self.squares / self.elements) if self.elements else 0.0
