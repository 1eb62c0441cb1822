"""Rules that round real numbers to whole ones, by the words that describe them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rule = Callable[[Array], Array]


def half_away(values: Array) -> Array:
    """Returns the values rounded to the nearest whole number, ties away from zero."""
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


def half_up(values: Array) -> Array:
    """Returns the values rounded to the nearest whole number, ties up."""
    return np.floor(values + 0.5)


NEAREST: dict[str, Rule] = {
    "to nearest (ties to even)": np.rint,
    "half up": half_up,
    "half away from zero": half_away,
}
RULES: dict[str, Rule] = {
    **NEAREST,
    "down (floor)": np.floor,
    "toward zero (truncated)": np.trunc,
    "by adding 0.5 and truncating toward zero": lambda v: np.trunc(v + 0.5),
    "up (ceiling)": np.ceil,
    "half down": lambda v: np.ceil(v - 0.5),
    "half toward zero": lambda v: np.copysign(np.ceil(np.abs(v) - 0.5), v),
    "away from zero": lambda v: np.copysign(np.ceil(np.abs(v)), v),
}
EVEN = "to nearest (ties to even)"


def finally_rounded(rule: str) -> str:
    """Returns the end of a sentence on a result that is rounded by this rule; "" for the usual rule."""
    return "" if rule == EVEN else f", the result rounded {rule}"
