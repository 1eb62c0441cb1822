"""Sums of products of float32, rounded once to float32: float64 sums in any order where they decide the rounding, exact
sums elsewhere (NUMERICS.md, conv_float)."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum

import numpy as np

from qverify.arithmetic.float32 import Array, round_to_odd

Terms = Callable[[Array], Array]
ROUNDOFF = 2.0**-53 * 1.001  # of binary64, with room for the rounding of the bound itself
EXTRA = 8  # roundings besides the sum's: of the norms, their product, the bound and its addition
TERMS_AT_ONCE = 1 << 20


def sum_bound(terms: int, size: Array) -> Array:
    """Returns how far a float64 sum of `terms` exact products, in any order, may be from the exact sum. size: at least
    the sum of their magnitudes."""
    return (terms + EXTRA) * ROUNDOFF * size


def round_once(total: Array, bound: Array, terms: Terms) -> Array:
    """Returns the exact sums, rounded once to float32; a zero is +0 and a NaN is 0x7FC00000.

    total: float64 sums, within `bound` of the exact ones. terms: of flat positions [E] of total, the exact float64
    terms [E, terms] of each; it is asked only where both ends of the interval round differently."""
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
    """Returns the sum of each row, rounded once to float32: to odd in float64, then to nearest."""
    near = np.array([fsum(row) for row in terms.tolist()])
    rest = np.array([fsum(row) for row in np.column_stack([terms, -near]).tolist()])
    with np.errstate(over="ignore"):
        return round_to_odd(near, rest).astype(np.float32) + np.float32(0)
