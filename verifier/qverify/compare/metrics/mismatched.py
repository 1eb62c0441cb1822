"""Number of elements with different values (stored integers; real values for floats)."""

from __future__ import annotations

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "mismatched"


class Measure:
    def __init__(self, context: Context):
        self.elements = 0

    def add(self, block: Block) -> None:
        different = block.distance != 0
        if block.steps is not None:
            different |= block.steps != 0
        self.elements += block.total(different)

    def result(self) -> int:
        return self.elements
