"""A function of int16 in 512 straight segments over the range of its input, each step in float32, as LiteRT's kernels compute GELU and
EXP (LITERT.md, int16 of a .tflite)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.rounding_rules import Array
from qverify.arithmetic.softmax_in_segments import SEGMENTS, interpolate

Single = np.float32
Reals = npt.NDArray[np.float64]
LOW, HIGH = -(1 << 15), (1 << 15) - 1


def of_every_code(function: Callable[[Reals], Reals], before: float, after: float) -> Array:
    """Returns the function's integers for every int16 from the lowest, int64 [65536]. before, after: scales of the input and the
    output, whose zero points are 0."""
    first, last = Single(Single(before) * Single(LOW)), Single(Single(before) * Single(HIGH))
    width = Single((last - first) / Single(SEGMENTS))
    inverse = Single(Single(1 << 16) / Single(Single(after) * Single(HIGH) - Single(after) * Single(LOW)))
    number = np.arange(SEGMENTS, dtype=Single)
    at = first + number * width
    here = _half_away(_steps(function, at, inverse))
    between = _half_away((_steps(function, first + (number + Single(1)) * width, inverse) + here) / Single(2))
    off = _half_away((between - _half_away(_steps(function, at + width / Single(2), inverse))) / Single(2))
    ends = np.append(here - off, _half_away(_steps(function, np.array([last]), inverse)))
    return interpolate(np.clip(ends, LOW, HIGH).astype(np.int64), np.arange(LOW, HIGH + 1))


def _steps(
    function: Callable[[Reals], Reals], at: npt.NDArray[np.float32], inverse: np.float32
) -> npt.NDArray[np.float32]:
    return np.asarray(function(at.astype(np.float64)).astype(Single) * inverse, Single)


def _half_away(value: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.asarray(np.copysign(np.floor(np.abs(value.astype(np.float64)) + 0.5), value), Single)
