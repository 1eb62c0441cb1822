"""Largest N at which the tensor would still match by the run's decimals rule; null when equal."""

from __future__ import annotations

from qverify.compare import decimals
from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "matching_digits"


class Measure:
    def __init__(self, context: Context):
        self.rule, self.largest = context.rule, 0.0
        self.passing = decimals.all_searched()

    def add(self, block: Block) -> None:
        self.largest = max(self.largest, float(block.distance.max(initial=0.0)))
        if self.rule in ("round", "truncate") and self.largest > 0:
            apart = block.distance != 0
            self.passing &= decimals.passing(self.rule, block.a[apart], block.b[apart], block.distance[apart])

    def result(self) -> int | None:
        if self.largest == 0:
            return None
        if self.rule in ("round", "truncate"):
            return max(self.passing, default=decimals.LOWEST)
        return decimals.largest_by_distance(self.rule, self.largest)
