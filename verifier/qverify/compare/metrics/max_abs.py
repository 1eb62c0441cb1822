"""Largest |a - b| of the real values, in float64."""

from __future__ import annotations

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "max_abs"


class Measure:
    def __init__(self, context: Context):
        self.largest = 0.0

    def add(self, block: Block) -> None:
        self.largest = max(self.largest, block.largest)

    def result(self) -> float:
        return self.largest
