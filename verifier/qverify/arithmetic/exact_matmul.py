"""Integer sums of products on BLAS: chooses the element type in which every partial sum is provably exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST_RUNS = 3  # of float32; float64 takes twice the time of one
FEW = 1 << 17  # weights that are kept in the type of their sums


def exact_dtype(bound: int) -> np.dtype[Any]:
    """Returns float32 if bound < 2^24, float64 if < 2^53, else int64. bound: at least the magnitude of every partial
    sum, so that no rounding can happen; BLAS adds the terms of a sum in an order that is not known."""
    if bound < 2**24:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if bound < 2**53 else np.dtype(np.int64)


def largest_partial_sum(limits: tuple[int, int], weights: Array, bias: Array | None = None) -> int:
    """Returns the largest magnitude that a sum of some terms x*w of one row has, its bias with them.

    limits: least and largest x. weights: whole numbers [outputs, terms]; bias: [outputs]. A partial sum is largest where
    every x of a positive w is the largest and every other x the least, or the other way round: half of max|x| * sum|w|
    for x of one sign."""
    low, high = min(limits[0], 0), max(limits[1], 0)
    short = weights.dtype.itemsize <= 2 and weights.shape[1] < 1 << 15  # then no sum of weights leaves int32
    positive = np.maximum(weights, 0).sum(1, dtype=np.int32 if short else np.int64).astype(np.int64)
    negative = positive - weights.sum(1, dtype=np.int32 if short else np.int64)
    if short and high - low < 1 << 17 and (bias is None or bias.dtype.itemsize <= 4):  # all below is far inside int64
        largest = np.maximum(high * positive - low * negative, high * negative - low * positive)
        added = np.int64(0) if bias is None else np.abs(bias.reshape(-1).astype(np.int64))
        return int((largest + added).max(initial=0))
    extra = [0] * len(weights) if bias is None else [abs(int(b)) for b in bias.reshape(-1)]
    rows = zip(positive.tolist(), negative.tolist(), extra, strict=True)
    return max((max(high * p - low * n, high * n - low * p) + b for p, n, b in rows), default=0)


@dataclass(frozen=True, slots=True)
class ExactSumPlan:
    """How a product is summed exactly: dtype: of both operands; runs: of the terms, each summed in dtype; whole: the type in
    which the runs' sums, and the bias, are added."""

    dtype: np.dtype[Any]
    runs: tuple[slice, ...]
    whole: np.dtype[Any]

    def product(self, a: Array, b: Array) -> Array:
        """Returns a @ b in type `whole`. a [M, terms] and b [terms, N]: exact in dtype."""
        acc = a[:, self.runs[0]] @ b[self.runs[0]]
        if self.dtype == self.whole:
            return acc
        total = acc.astype(self.whole)
        for run in self.runs[1:]:
            total += a[:, run] @ b[run]
        return total


def plan_exact_sums(limits: tuple[int, int], weights: Array, bias: Array | None = None) -> ExactSumPlan:
    """Returns the fastest way to sum the terms of largest_partial_sum: in float32 where that is exact for the whole or, for
    long sums, for each of a few runs."""
    count, dtype = weights.shape[1], exact_dtype(largest_partial_sum(limits, weights, bias))
    if dtype == np.float64:
        for parts in range(1, MOST_RUNS + 1):
            runs = [slice(count * i // parts, count * (i + 1) // parts) for i in range(parts)]
            if all(exact_dtype(largest_partial_sum(limits, weights[:, run])) == np.float32 for run in runs):
                return ExactSumPlan(np.dtype(np.float32), tuple(runs), dtype)
    return ExactSumPlan(dtype, (slice(0, count),), dtype)


def centred_limits(dtype: str, *zero_points: int) -> tuple[int, int]:
    """Returns the least and the largest x - zero_point over the type's range."""
    limits = np.iinfo(dtype)
    return int(limits.min) - max(zero_points), int(limits.max) - min(zero_points)


def centred(values: Array, zero_point: Array, dtype: np.dtype[Any]) -> Array:
    """Returns values - zero_point exactly, as dtype (narrow_type); the very array, of its own type, where every zero
    point is 0."""
    if values.dtype.kind in "iu" and not zero_point.any():
        return values
    return np.subtract(values, zero_point, dtype=dtype, casting="unsafe")


def widen(weights: Array, dtype: np.dtype[Any]) -> Array:
    """Returns constant whole numbers as dtype, the type of their sums, where that is little memory; else unchanged, for
    each block to make its part ready: that takes less time than to read so much memory again."""
    return weights.astype(dtype) if weights.size <= FEW else weights


def narrow_type(dtype: str) -> np.dtype[Any]:
    """Returns the narrowest integer type in which the magnitude of any value minus any zero point of this type is
    exact."""
    return np.dtype({1: np.int16, 2: np.int32}.get(np.dtype(dtype).itemsize, np.int64))


def wrap_int32(acc: Array) -> Array:
    """Returns exact integers (any dtype) wrapped to int32, two's complement."""
    return acc.astype(np.int64).astype(np.int32)
