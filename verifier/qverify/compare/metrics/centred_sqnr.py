"""Signal-to-noise ratio of centred values: 10 log10(var(a) / var(a - b)), infinite if both are equal or a constant apart;
Sophgo's npz_tool prints it as sqnr_similarity."""

from __future__ import annotations

import math

import numpy as np

from qverify.arithmetic.functions64 import log10_of
from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "centred_sqnr_db"


class Measure:
    def __init__(self, context: Context):
        self.elements = context.elements
        self.signal, self.noise = _Spread(), _Spread()
        self.largest = 0.0

    def add(self, block: Block) -> None:
        self.largest = max(self.largest, block.largest)
        with np.errstate(invalid="ignore", over="ignore"):
            self.signal.add(block, block.a)
            self.noise.add(block, block.a - block.b)

    def result(self) -> float:
        if self.largest == 0:
            return math.inf
        signal, noise = self.signal.result(self.elements), self.noise.result(self.elements)
        if not math.isfinite(self.largest) or not math.isfinite(noise) or signal <= 0:
            return -math.inf
        return 10 * log10_of(signal / noise) if noise > 0 else math.inf


class _Spread:
    """The sum of squares of the distances from a mean, of values around the first one, so that it keeps its digits."""

    def __init__(self) -> None:
        self.origin: float | None = None
        self.sum = self.squares = 0.0

    def add(self, block: Block, values: np.ndarray) -> None:
        if self.origin is None:
            self.origin = float(values.flat[0]) if values.size else None
        if self.origin is not None:
            moved = values - self.origin
            self.sum += block.weighted(moved)
            self.squares += block.weighted(moved * moved)

    def result(self, elements: int) -> float:
        return self.squares - self.sum * self.sum / max(1, elements)
