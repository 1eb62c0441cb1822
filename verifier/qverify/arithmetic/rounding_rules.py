"""The rules by which a value between two integers becomes one of them (verifier/NUMERICS.md section 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# In the order of their numbers in model.bin
RULES = ("half up", "half even", "half away from zero", "half down", "floor", "toward zero", "ceiling")


def shift_right(value: Array, shift: Array, rule: str, zero: int = 0, short: bool = False) -> Array:
    """Returns value / 2^shift, rounded by a rule. value, shift: int64, shift 0 to 63. zero: what is added to the result
    later and counts at its rounding. short: whether the values are within +-2^62, which is faster. May return an
    overwritten value then."""
    if short and rule in ("half up", "half away from zero") and not zero and shift.min() >= 1 and shift.max() <= 62:
        below = value < 0 if rule != "half up" else None
        value += np.int64(1) << (shift - 1)
        if below is not None:
            value -= below
        value >>= shift
        return value
    low = value >> shift
    if rule == "floor":
        return low
    half = np.int64(1) << np.maximum(shift - 1, 0)
    low += _goes_up(low, value & ~(np.int64(-1) << shift), half, rule, zero)
    return low


def round_real(value: Array, rule: str, zero: int = 0) -> Array:
    """Returns float64 values rounded to whole numbers by a rule. zero: as in shift_right."""
    if rule == "half even" and not zero % 2:
        return np.asarray(np.rint(value))
    low = np.floor(value)
    return np.asarray(low + _goes_up(low, value - low, 0.5, rule, zero))


def _goes_up(low: Array, rest: Array, half: Any, rule: str, zero: int) -> Array:
    """Returns a mask of the values that are rounded to the integer above `low`. rest: the value without low."""
    if rule == "floor":
        return np.zeros(np.shape(low), bool)
    if rule == "ceiling":
        return np.asarray(rest > 0)
    if rule == "toward zero":
        return np.asarray((rest > 0) & (low + zero < 0))
    if rule == "half up":
        return np.asarray(rest >= half)
    if rule == "half down":
        return np.asarray(rest > half)
    upper = (low + zero) % 2 != 0 if rule == "half even" else low + zero >= 0
    return np.asarray((rest > half) | ((rest == half) & upper))
