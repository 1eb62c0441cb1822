"""A softmax of int16: exponentials and one reciprocal a row, each in 512 straight segments, as LiteRT's reference kernels
compute it (NUMERICS.md, softmax)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.arithmetic.forms import NAMES
from qverify.arithmetic.requantize import scale_sums
from qverify.arithmetic.rounding_rules import Array

Reals = npt.NDArray[np.float64]
SEGMENTS, PART = 512, 7  # of a function; bits of a position within a segment
ONE = 2.0**15  # stands for 1
LOWEST = -10.0  # the difference to the largest of a row at which the first segment begins
DIFFERENCES = 1 << 16  # of two int16, from the largest on downward
MOST_DEPTH = 1 << 16  # elements of a row whose exponentials are below 2^31 together
LEAST_LARGEST = 1 << 14  # least exponential of a row's largest element
OUTPUT_SCALE = 2.0**-15


def make_table(scale: float) -> Array:
    """Returns the exponentials of stored integers that are 65,535 to 0 below the largest of their row, and behind them the
    ends of the reciprocal's segments, int16 [65536 + 513]. scale: of the inputs. Raises ValueError for one that cannot be
    represented."""
    below = np.arange(DIFFERENCES, dtype=np.int64) - (DIFFERENCES - 1)
    ratio = np.array([float(np.float32(scale)) / (-LOWEST / (DIFFERENCES - 1))])
    place = np.clip(scale_sums(NAMES["gemmlowp"], below, ratio) + (1 << 15) - 1, -(1 << 15), (1 << 15) - 1)
    exponentials = interpolate(_ends(functions64.exp, LOWEST, 0.0), place)
    return np.concatenate([exponentials, _ends(_reciprocal, 0.0, 1.0)]).astype(np.int16)


def divide_terms(terms: Array, ends: Array, axis: int) -> Array:
    """Returns exponentials divided by their sums along an axis, as steps of 2^-15. ends: those of the reciprocal."""
    terms = terms.astype(np.int64)
    total = terms.sum(axis, keepdims=True)
    zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)  # before the first bit that is set
    place = ((total << (zeros - 1)) + (1 << 13) >> 14) - (3 << 15)
    inverse = interpolate(ends.astype(np.int64), np.clip(place, -(1 << 15), (1 << 15) - 1))
    return (terms * inverse + (np.int64(1) << (30 - zeros))) >> (31 - zeros)


def interpolate(ends: Array, place: Array) -> Array:
    """Returns a function in segments. ends: its values there, int64 [513]. place: int16 in int64; -32768 is the first."""
    segment, part = (place >> PART) + SEGMENTS // 2, place & ((1 << PART) - 1)
    return ends[segment] + ((ends[segment + 1] - ends[segment]) * part + (1 << (PART - 1)) >> PART)


def _reciprocal(x: Reals) -> Reals:
    return 1.0 / (1.0 + x)


def _ends(function: Callable[[Reals], Reals], first: float, last: float) -> Array:
    """Returns a function at the ends of its segments as steps of 2^-15, int64 [513]. Each but the last is shifted by half
    of what its segment is off in the middle."""
    width = (last - first) / SEGMENTS
    x: Reals = np.asarray(first + width * np.arange(SEGMENTS), np.float64)
    here: Reals = _half_away(function(x) * ONE)
    between = _half_away((function(np.asarray(x + width, np.float64)) * ONE + here) / 2.0)
    off = np.subtract(between, _half_away(function(np.asarray(x + width / 2.0, np.float64)) * ONE))
    ends = np.append(here - _half_away(off / 2.0), _half_away(function(np.array([last])) * ONE))
    return np.clip(ends, -ONE, ONE - 1).astype(np.int64)


def _half_away(value: npt.ArrayLike) -> Reals:
    real = np.asarray(value, np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(real) + 0.5), real), np.float64)
