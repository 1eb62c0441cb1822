"""Computes integer sums of products with BLAS, in an element type in which every partial sum is provably exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.byte_sums import sum_rows

Array = npt.NDArray[Any]
MAX_RUNS = 3  # of terms that are summed in float32; float64 takes about twice as long as float32
FEW = 1 << 17  # number of weights that are kept in the type of their sums


def exact_dtype(bound: int) -> np.dtype[Any]:
    """Returns the fastest type in which no sum is rounded: float32 if bound < 2^24, float64 if bound < 2^53, else
    int64. bound: upper bound of the magnitudes of all partial sums, because the order in which BLAS adds terms is not
    known."""
    if bound < 2**24:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if bound < 2**53 else np.dtype(np.int64)


def largest_partial_sum(limits: tuple[int, int], weights: Array, bias: Array | None = None) -> int:
    """Returns the largest possible magnitude of a sum over any subset of the terms x*w of one row and its bias.

    A partial sum is largest if x is the largest for every positive w and the smallest for every other, or the reverse.
    If x has one sign, this is about half of max|x| * sum|w|.

    Args:
        limits: smallest and largest x.
        weights: whole numbers [outputs, terms].
        bias: [outputs], or None.
    """
    low, high = min(limits[0], 0), max(limits[1], 0)
    positive, negative = _signed_sums(weights)
    short = weights.dtype.itemsize <= 2 and weights.shape[1] < 1 << 15  # then every sum of weights fits into int32
    if short and high - low < 1 << 17 and (bias is None or bias.dtype.itemsize <= 4):  # then int64 is sufficient
        largest = np.maximum(high * positive - low * negative, high * negative - low * positive)
        added = np.int64(0) if bias is None else np.abs(bias.reshape(-1).astype(np.int64))
        return int((largest + added).max(initial=0))
    extra = [0] * len(weights) if bias is None else [abs(int(b)) for b in bias.reshape(-1)]
    rows = zip(positive.tolist(), negative.tolist(), extra, strict=True)
    return max((max(high * p - low * n, high * n - low * p) + b for p, n, b in rows), default=0)


def _signed_sums(weights: Array) -> tuple[Array, Array]:
    """Returns the sum of the positive weights of each row, and the magnitude of that of the others, both int64."""
    if weights.dtype == np.int8:
        positive = sum_rows(weights.T, lambda block: np.maximum(block, 0))
        return positive, positive - sum_rows(weights.T, lambda block: block)
    short = weights.dtype.itemsize <= 2 and weights.shape[1] < 1 << 15  # then every sum fits into int32
    kind = np.int32 if short else np.int64
    positive = np.maximum(weights, 0).sum(1, dtype=kind).astype(np.int64)
    return positive, positive - weights.sum(1, dtype=kind)


@dataclass(frozen=True, slots=True)
class ExactSumPlan:
    """A plan by which the sums of a matrix product are computed exactly.

    Attributes:
        dtype: type of both operands.
        runs: runs of the terms, each of which is summed in dtype.
        whole: type in which the sums of the runs and the bias are added.
    """

    dtype: np.dtype[Any]
    runs: tuple[slice, ...]
    whole: np.dtype[Any]

    def product(self, a: Array, b: Array) -> Array:
        """Returns a @ b in the type `whole`. a: [M, terms], b: [terms, N], both exact in dtype."""
        acc = a[:, self.runs[0]] @ b[self.runs[0]]
        if self.dtype == self.whole:
            return acc
        total = acc.astype(self.whole)
        for run in self.runs[1:]:
            total += a[:, run] @ b[run]
        return total


def plan_exact_sums(limits: tuple[int, int], weights: Array, bias: Array | None = None) -> ExactSumPlan:
    """Returns the fastest plan to sum the terms exactly: in float32 if that is exact for the whole sum or, for long
    sums, for each of a few runs. The arguments are those of largest_partial_sum()."""
    count, dtype = weights.shape[1], exact_dtype(largest_partial_sum(limits, weights, bias))
    if dtype == np.float64:
        for parts in range(1, MAX_RUNS + 1):
            runs = [slice(count * i // parts, count * (i + 1) // parts) for i in range(parts)]
            if all(exact_dtype(largest_partial_sum(limits, weights[:, run])) == np.float32 for run in runs):
                return ExactSumPlan(np.dtype(np.float32), tuple(runs), dtype)
    return ExactSumPlan(dtype, (slice(0, count),), dtype)


def centred_limits(dtype: str, *zero_points: int) -> tuple[int, int]:
    """Returns the smallest and the largest value of x - zero_point over the range of the type."""
    limits = np.iinfo(dtype)
    return int(limits.min) - max(zero_points), int(limits.max) - min(zero_points)


def centred(values: Array, zero_point: Array, dtype: np.dtype[Any]) -> Array:
    """Returns values - zero_point, which is exact in dtype (see narrow_type()). If every zero point is 0, the array
    itself is returned, in its own type."""
    if values.dtype.kind in "iu" and not zero_point.any():
        return values
    return np.subtract(values, zero_point, dtype=dtype, casting="unsafe")


def widen(weights: Array, dtype: np.dtype[Any]) -> Array:
    """Returns constant weights in dtype, the type of their sums, if they are few. Many weights are returned unchanged,
    and each block converts its part: that takes less time than reading so much more memory."""
    return weights.astype(dtype) if weights.size <= FEW else weights


def narrow_type(dtype: str) -> np.dtype[Any]:
    """Returns the narrowest integer type in which the magnitude of any value of this type minus any zero point is
    exact."""
    return np.dtype({1: np.int16, 2: np.int32}.get(np.dtype(dtype).itemsize, np.int64))


def wrap_int32(acc: Array) -> Array:
    """Returns exact integers (of any dtype) wrapped to int32 in two's complement."""
    return acc.astype(np.int64).astype(np.int32)
