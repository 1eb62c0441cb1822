"""Computes sums of products of float32, rounded once to float32. Where a float64 sum in any order is sufficient to
determine the rounding, it is used; elsewhere an exact sum is computed (NUMERICS.md, conv_float)."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum

import numpy as np

from qverify.arithmetic.float32 import Array, round_to_odd, two_sum

TermsOfElements = Callable[[Array], Array]
ROUNDOFF = 2.0**-53 * 1.001  # of binary64, with a margin for the rounding of the bound itself
EXTRA = 8  # roundings besides those of the sum: of the norms, their product, the bound and its addition
TERMS_AT_ONCE = 1 << 20  # terms that are in memory at the same time


def sum_bound(terms: int, size: Array) -> Array:
    """Returns an upper bound of the error of a float64 sum of `terms` exact products, in any order. size: upper bound
    of the sum of their magnitudes."""
    return (terms + EXTRA) * ROUNDOFF * size


def round_once(total: Array, bound: Array, terms: TermsOfElements) -> Array:
    """Returns the exact sums, rounded once to float32. A zero is +0 and a NaN is 0x7FC00000.

    Args:
        total: float64 sums.
        bound: upper bound of the distance of `total` from the exact sums.
        terms: function that returns, for flat positions [E] in total, the exact float64 terms [E, terms] of these sums.
            It is called only for sums whose interval has ends that are rounded differently.
    """
    with np.errstate(all="ignore"):
        low, high = (np.asarray(total - bound, np.float32), np.asarray(total + bound, np.float32))
        finite = np.isfinite(total)
        doubtful = np.flatnonzero((low != high) & finite)
        y: Array = np.where(finite, high, total.astype(np.float32)) + np.float32(0)
    y[np.isnan(y)] = np.nan
    flat = y.reshape(-1)
    while len(doubtful):
        first = terms(doubtful[:1])
        count = max(1, TERMS_AT_ONCE // max(1, first.shape[1]))
        flat[doubtful[:count]] = _sum_exactly(terms(doubtful[:count]))
        doubtful = doubtful[count:]
    return y


def _sum_exactly(terms: Array) -> Array:
    """Returns the sum of each row [E, terms], rounded once to float32."""
    total, error, bound = _sum_with_error(terms)
    low, high = (_round_sum(total, error + side) for side in (-bound, bound))
    doubtful = np.flatnonzero((low != high) | (bound > np.abs(total) * 2.0**-60))
    if len(doubtful):  # rare, except for sums that are ties or zero
        nearest = np.array([fsum(row) for row in terms[doubtful].tolist()])
        difference = np.array([fsum(row) for row in np.column_stack([terms[doubtful], -nearest]).tolist()])
        high[doubtful] = _round_sum(nearest, difference)
    return high


def _sum_with_error(terms: Array) -> tuple[Array, Array, Array]:
    """Returns (total, error, bound) for each row: the exact sum is within bound of total + error, and total is the
    float64 nearest to that. The halves of the terms are added repeatedly, and the errors of these additions are
    summed."""
    lost, size, roundings = np.zeros(len(terms)), np.zeros(len(terms)), terms.shape[1] + EXTRA
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        sums, errors = two_sum(terms[:, :half], terms[:, half : 2 * half])
        lost += errors.sum(1)
        size += np.abs(errors).sum(1)
        terms = np.column_stack([sums, terms[:, 2 * half :]])
    total, error = two_sum(terms[:, 0], lost)
    return total, error, roundings * ROUNDOFF * size


def _round_sum(total: Array, error: Array) -> Array:
    """Returns total + error rounded to odd in float64, then to float32. error: less than the distance to the next
    float64."""
    with np.errstate(over="ignore"):
        return round_to_odd(total, error).astype(np.float32) + np.float32(0)


def multiply_exactly(a: Array, b: Array, added: Array | None = None) -> Array:
    """Returns the exact sums of a @ b + added, rounded once to float32. a (..., M, K), b (..., K, N) and added, which
    broadcasts to the result, are float32 values in float64."""
    with np.errstate(all="ignore"):
        total = np.matmul(a, b)
        size = norm_products(a, b)
        extra = None if added is None else np.broadcast_to(added, total.shape)
        bound = sum_bound(a.shape[-1] + 1, size if extra is None else size + np.abs(extra))

    def products(at: Array) -> Array:
        *lead, row, column = np.unravel_index(at, total.shape)
        rows = np.broadcast_to(a, (*total.shape[:-2], *a.shape[-2:]))[(*lead, row)]
        columns = np.swapaxes(np.broadcast_to(b, (*total.shape[:-2], *b.shape[-2:])), -1, -2)[(*lead, column)]
        return rows * columns if extra is None else np.column_stack([rows * columns, extra.reshape(-1)[at]])

    return round_once(total if extra is None else total + extra, bound, products)


def norm_products(a: Array, b: Array) -> Array:
    """Returns the products of the norms of a's rows and b's columns, which are upper bounds of |a| @ |b|."""
    product: Array = np.sqrt((a * a).sum(-1))[..., :, None] * np.sqrt((b * b).sum(-2))[..., None, :]
    return product
