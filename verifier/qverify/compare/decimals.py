"""Decides whether two real values match to N decimal places, by one of five rules, computed in float64.

half      |a - b| <= 0.5 * 10^-N                   (the default)
round     round(a, N) == round(b, N), ties to even
truncate  trunc(a * 10^N) == trunc(b * 10^N)
numpy     |a - b| < 1.5 * 10^-N                     (assert_array_almost_equal)
exact     a == b, whatever N
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log10_of
from qverify.compare.criteria import MAX_DIGITS, RULES
from qverify.plural import count

LOWEST, HIGHEST = -400, 323  # numbers of places; LOWEST stands for "matches at none", because a value is not finite
_SEARCHED_DIGITS = range(MAX_DIGITS, -40, -1)  # numbers of places that are tried for the rules round and truncate
Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def power(digits: int) -> float:
    """Returns the float64 nearest to 10^-digits."""
    return float(f"1e{-digits}")


def limit(rule: str, digits: int) -> float:
    """Returns the largest distance that matches under the rule `half`, the smallest that does not match under `numpy`,
    and 0 for the other rules, which do not depend on the distance alone."""
    if rule == "half":
        return float(f"5e{-digits - 1}")
    if rule == "numpy":
        return 1.5 * power(digits)
    return 0.0


def matches(rule: str, digits: int, a: Reals, b: Reals, distance: Reals) -> Mask:
    """Returns a mask of the elements that match. distance: |a - b|, infinite where exactly one side is not finite.
    Raises ValueError for an unknown rule."""
    if rule == "half":
        return np.asarray(distance <= limit(rule, digits))
    if rule == "numpy":
        return np.asarray(distance < limit(rule, digits))
    if rule == "exact":
        return np.asarray(distance == 0)
    with np.errstate(invalid="ignore", over="ignore"):
        if rule == "round":
            same = np.round(a, digits) == np.round(b, digits)
        elif rule == "truncate":
            step = float(f"1e{digits}")
            same = np.trunc(a * step) == np.trunc(b * step)
        else:
            raise ValueError(f"decimals rule {rule!r}: wanted one of {', '.join(RULES)}")
    return np.asarray((same & np.isfinite(distance)) | (distance == 0))


def largest_by_distance(rule: str, distance: float) -> int | None:
    """Returns the largest number of places at which a tensor with this largest distance matches: None for distance 0,
    LOWEST for one that is not finite. For the rule `exact`, the result is that of `half`."""
    if distance == 0:
        return None
    if not math.isfinite(distance):
        return LOWEST
    rule = "numpy" if rule == "numpy" else "half"
    digits = min(HIGHEST, math.floor(-log10_of(distance)) + 2)
    while digits > LOWEST and not (
        distance < limit(rule, digits) if rule == "numpy" else distance <= limit(rule, digits)
    ):
        digits -= 1
    return digits


def find_matching_digits(rule: str, a: Reals, b: Reals, distance: Reals) -> set[int]:
    """Returns every searched number of places at which all elements match. (With `round` and `truncate`, elements that
    match at N places need not match at fewer.)"""
    return {n for n in _SEARCHED_DIGITS if bool(matches(rule, n, a, b, distance).all())}


def list_searched_digits() -> set[int]:
    """Returns every number of places that find_matching_digits() tries."""
    return set(_SEARCHED_DIGITS)


def describe(rule: str, digits: int) -> str:
    """Returns a description of the rule, such as `5 decimals, rule half: |a-b| <= 0.5e-5`."""
    places, scale = count(digits, "decimal"), f"e-{digits}" if digits else ""
    return {
        "half": f"{places}, rule half: |a-b| <= 0.5{scale}",
        "numpy": f"{places}, rule numpy: |a-b| < 1.5{scale}",
        "round": f"{places}, rule round: equal after rounding to {count(digits, 'place')}",
        "truncate": f"{places}, rule truncate: equal after cutting at {count(digits, 'place')}",
        "exact": "rule exact: a == b",
    }[rule]
