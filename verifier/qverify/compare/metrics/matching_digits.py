"""Largest number of decimals to which the tensor matches by the decimals rule of the run; null if both are equal."""

from __future__ import annotations

from qverify.compare import decimals
from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "matching_digits"


class Measure:
    def __init__(self, context: Context):
        self.rule, self.largest = context.rule, 0.0
        self.matching = decimals.list_searched_digits()

    def add(self, block: Block) -> None:
        self.largest = max(self.largest, block.largest)
        if self.rule in ("round", "truncate") and self.largest > 0:
            apart = block.distance != 0
            self.matching &= decimals.find_matching_digits(
                self.rule, block.a[apart], block.b[apart], block.distance[apart]
            )

    def result(self) -> int | None:
        if self.largest == 0:
            return None
        if self.rule in ("round", "truncate"):
            return max(self.matching, default=decimals.LOWEST)
        return decimals.largest_by_distance(self.rule, self.largest)
