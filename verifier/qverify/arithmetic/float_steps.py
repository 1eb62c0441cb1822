"""How OpenVINO scales the sums of a convolution or a product with constant weights: step by step in float32
(verifier/ARITHMETICS.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qverify.arithmetic.rounding_rules import Array

Single = np.float32
STEPS = 255  # between the lowest and the highest integer
NEGLIGIBLE = 1e-4  # steps by which a zero point may miss a whole number


def scale_in_float32(
    x: tuple[float, int],
    weights: Sequence[float],
    y: tuple[float, int],
    dtype: str,
    biases: Array | None,
    *,
    matrix: bool = False,
) -> Array:
    """Returns the rq of 8-bit sums, float32 [4, C] without biases, or float64 [6, C].

    Args:
        x: scale and zero point of the input.
        weights: the scales of the weights.
        y: scale and zero point of the output.
        dtype: the type of input and output.
        biases: those that are terms of the sums, or None.
        matrix: whether it is a product with a matrix, not a convolution.

    Raises ValueError for scales that it cannot represent."""
    lowest, step, zero = int(np.iinfo(dtype).min), Single(y[0]), y[1]
    sums = Single(x[0]) * np.atleast_1d(np.asarray(weights, Single))
    if not (np.isfinite(sums).all() and sums.min() > 0 and step > 0):
        raise ValueError(f"a scale of {sums.min():g} cannot be represented")
    ends = Single(lowest - zero) * step, Single(lowest + STEPS - zero) * step
    if biases is None or not biases.any():
        if matrix and x[1]:
            raise ValueError("its input has a zero point, and it has no biases")
        return _fuse(ends, sums, lowest)
    factor, shift = _find_factor(*ends)
    real = biases.astype(Single) * sums
    if matrix or (dtype == "int8" and x[1]):
        rows = sums * factor, real * factor + shift + Single(lowest), Single(1), Single(0)
    else:
        shift = _add_lowest(shift, lowest)
        rows = sums, real, factor if shift else 1 / (1 / factor), shift
    return _stack(rows[0], -biases.astype(np.float64), rows[1], 0, *rows[2:])


def _find_factor(low: Any, high: Any) -> tuple[Any, Any]:
    """Returns by what real values are multiplied, and what is added then, so that these two become the lowest and the
    highest of 256 integers from 0."""
    return Single(STEPS) / (high - low), -low * Single(STEPS) / (high - low)


def _fuse(ends: tuple[np.float32, np.float32], sums: Array, lowest: int) -> Array:
    """Returns the rq without biases: the ends are divided by the scales of the sums, and the zero point of the first
    channel is that of all."""
    factor, shift = _find_factor(*(end / sums for end in ends))
    return _stack(factor, 0, _add_lowest(shift[0], lowest), 0).astype(Single)


def _add_lowest(shift: np.float32, lowest: int) -> np.float32:
    added = shift + Single(lowest)
    return added if abs(added) >= NEGLIGIBLE else Single(0)


def _stack(*rows: Array | np.float32 | int) -> Array:
    made = np.stack(np.broadcast_arrays(*(np.atleast_1d(np.asarray(row, np.float64)) for row in rows)))
    if not np.isfinite(made).all():
        raise ValueError("a scale cannot be represented in float32")
    return made
