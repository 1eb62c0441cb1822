"""When two values match to N decimal places, by five rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MAX_DIGITS = 15


def _half(a: Array, b: Array, digits: int) -> Array:
    return np.abs(a - b) <= 0.5 * 10.0**-digits


def _round(a: Array, b: Array, digits: int) -> Array:
    return np.round(a, digits) == np.round(b, digits)


def _truncate(a: Array, b: Array, digits: int) -> Array:
    return np.trunc(a * 10.0**digits) == np.trunc(b * 10.0**digits)


def _numpy(a: Array, b: Array, digits: int) -> Array:
    return np.abs(a - b) < 1.5 * 10.0**-digits


def _exact(a: Array, b: Array, digits: int) -> Array:
    return a == b


RULES: dict[str, Callable[[Array, Array, int], Array]] = {
    "half": _half,
    "round": _round,
    "truncate": _truncate,
    "numpy": _numpy,
    "exact": _exact,
}


def unmatched(a: Array, b: Array, digits: int, rule: str) -> Array:
    """Where a and b (float64, real units) do not match to `digits` places. Equal values match by every rule; NaN never."""
    with np.errstate(invalid="ignore", over="ignore"):
        return ~((a == b) | RULES[rule](a, b, digits))


def largest_digits(a: Array, b: Array, rule: str) -> int:
    """The largest N (-1 to 15) at which every element would still match; -1 when not even N = 0."""
    for digits in range(MAX_DIGITS, -1, -1):
        if not unmatched(a, b, digits, rule).any():
            return digits
    return -1
