"""Largest |a - b| of the stored integers."""

from __future__ import annotations

import numpy as np

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "max_lsb"


class Measure:
    def __init__(self, context: Context):
        self.largest: int | None = 0 if context.integers else None

    def add(self, block: Block) -> None:
        if block.steps is not None and self.largest is not None:
            self.largest = max(self.largest, int(np.abs(block.steps).max(initial=0)))

    def result(self) -> int | None:
        return self.largest
