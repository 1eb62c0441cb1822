"""The error of qverify's own normalizations, which are computed in float64 and rounded once (NUMERICS.md section 4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qverify.compare.error_bounds.bounded_values import ROUNDOFF, TINY, Held, Real, Reals, real

DOUBLE = 2.0**-52


def with_own(y: Real, inputs: list[Held | None], rows: Reals, value: Reals, least: Reals, scale: Reals) -> Real:
    """Returns y, with the error of qverify's own sides where the inputs are exact. y: the output, in x's shape. rows,
    value: x and (x - mean) / s, [rows, D]. least: of s, [rows, 1]. scale: |gamma| of each element, in x's shape."""
    if any(real(v).error.any() for v in inputs if v is not None):
        return y
    size = np.abs(rows) + np.abs(rows).mean(1, keepdims=True)
    depth = DOUBLE * (rows.shape[1] + 8)
    reach = size * (1 + np.abs(value)) / np.maximum(least, 0.0)  # no number where s may be 0: then y.error is the limit
    moved = depth * (reach + np.abs(value))
    before = (moved + DOUBLE * np.abs(value)).reshape(y.value.shape) * scale
    own = before + (ROUNDOFF + DOUBLE) * np.abs(y.value) + TINY
    return replace(y, ours=np.fmin(own + DOUBLE * np.abs(y.value), y.error))
