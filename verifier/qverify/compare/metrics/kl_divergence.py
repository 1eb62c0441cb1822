"""Kullback-Leibler divergence of the distribution of b's values from that of a's, in nats. Values are counted in bins of a
sixteenth of a power of two (sign, exponent and four bits of the fraction of the float64), with half an element added to
each bin that a side has; 0 if both distributions are the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log
from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "kl_divergence"
SHIFT, BINS = np.uint64(48), 1 << 16  # bits of a float64 below those that choose the bin


class Measure:
    def __init__(self, context: Context):
        self.counts: npt.NDArray[np.int64] | None = None

    def add(self, block: Block) -> None:
        if self.counts is None:
            self.counts = np.zeros((2, BINS), np.int64)
        for counts, values in zip(self.counts, (block.a, block.b), strict=True):
            bins = ((values + 0.0).view(np.uint64) >> SHIFT).astype(np.int64)  # -0.0 + 0.0 is 0.0
            counts += np.bincount(bins, block.count, BINS).astype(np.int64)

    def result(self) -> float:
        if self.counts is None or np.array_equal(*self.counts):
            return 0.0
        counts = self.counts[:, self.counts.any(axis=0)] + 0.5
        p, q = counts / counts.sum(axis=1, keepdims=True)
        return max(0.0, float((p * (log(p) - log(q))).sum()))
