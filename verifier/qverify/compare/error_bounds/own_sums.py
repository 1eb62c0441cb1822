"""The error of qverify's own sums and products of floats, which are computed in float64 and rounded once (NUMERICS.md
section 4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qverify.compare.error_bounds.bounded_values import ROUNDOFF, TINY, BoundedValue, Real, Reals, require_real

DOUBLE = 2.0**-52  # twice the roundoff of float64: that of qverify's own sides, and that of this evaluation
OTHER = 64  # roundings to float64 besides those of the sum: squares, root, quotients, and an exponential's error


def add_own_error_of_sum(y: Real, terms: Real, size: Reals, count: int) -> Real:
    """Returns y with the error of qverify's own sides, if the terms are exact.

    Args:
        y: the sums.
        terms: the terms.
        size: the sum of the magnitudes of each element's terms, divided as the sum is divided.
        count: number of terms of one sum.
    """
    if terms.error.any():
        return y
    own_error = ROUNDOFF * np.abs(y.value) + DOUBLE * count * size + TINY
    return replace(y, ours=np.fmin(own_error, y.error))


def add_own_relative_error(y: Real, inputs: list[BoundedValue | None], count: int) -> Real:
    """Returns y with the error of qverify's own sides, if the inputs are exact and nothing cancels: y is a quotient by
    a sum of `count` terms of one sign, or by its root."""
    if any(require_real(v).error.any() for v in inputs if v is not None):
        return y
    own_error = (ROUNDOFF + DOUBLE * (count + OTHER)) * np.abs(y.value) + TINY
    return replace(y, ours=np.fmin(own_error, y.error))
