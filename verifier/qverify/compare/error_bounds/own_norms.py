"""The error of qverify's own normalizations, which are computed in float64 and rounded once (NUMERICS.md section 4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qverify.compare.error_bounds.bounded_values import ROUNDOFF, TINY, BoundedValue, Real, Reals, require_real

DOUBLE = 2.0**-52  # twice the roundoff of float64


def add_own_error(
    y: Real, inputs: list[BoundedValue | None], rows: Reals, value: Reals, root: Reals, least: Reals, scale: Reals
) -> Real:
    """Returns y with the error of qverify's own sides, if the inputs are exact.

    Args:
        y: the output, in x's shape.
        inputs: the inputs of the node.
        rows: x, [rows, D].
        value: (x - mean) / s, [rows, D], s being the deviation of each row.
        root: s, [rows, 1].
        least: the smallest s of any float32 kernel, [rows, 1]. Where it may be 0, s in float64 is at least root / 2.
        scale: |gamma| of each element, in x's shape.
    """
    if any(require_real(v).error.any() for v in inputs if v is not None):
        return y
    size = np.abs(rows) + np.abs(rows).mean(1, keepdims=True)
    depth = DOUBLE * (rows.shape[1] + 8)
    known = np.where(depth * (rows**2).mean(1, keepdims=True) <= root**2 / 4, root / 2, 0.0)  # s in float64
    least = np.where(least > 0, least, known)
    reach = size * (1 + np.abs(value)) / np.maximum(least, 0.0)  # NaN if s may be 0; y.error is the limit then
    moved = depth * (reach + np.abs(value))
    before = (moved + DOUBLE * np.abs(value)).reshape(y.value.shape) * scale
    own_error = before + (ROUNDOFF + DOUBLE) * np.abs(y.value) + TINY
    return replace(y, ours=np.fmin(own_error + DOUBLE * np.abs(y.value), y.error))
