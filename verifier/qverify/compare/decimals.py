"""When two real values match to N decimal places: five rules, in float64.

half      |a - b| <= 0.5 * 10^-N                   (the default)
round     round(a, N) == round(b, N), ties to even
truncate  trunc(a * 10^N) == trunc(b * 10^N)
numpy     |a - b| < 1.5 * 10^-N                     (assert_array_almost_equal)
exact     a == b; N plays no part
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from qverify.compare.criteria import MOST_DIGITS, RULES

LOWEST, HIGHEST = -400, 323  # LOWEST: matches at no N (a value is not finite)
_SEARCHED = range(MOST_DIGITS, -40, -1)  # what round and truncate try
Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def power(digits: int) -> float:
    """10^-digits, the nearest float64."""
    return float(f"1e{-digits}")


def limit(rule: str, digits: int) -> float:
    """Largest (numpy: first refused) distance of the rules that look at distances only."""
    if rule == "half":
        return float(f"5e{-digits - 1}")
    if rule == "numpy":
        return 1.5 * power(digits)
    return 0.0


def matches(rule: str, digits: int, a: Reals, b: Reals, distance: Reals) -> Mask:
    """Which elements match. distance: |a - b| with inf where exactly one side is not finite."""
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
    """Largest N at which this largest distance still matches; None when there is no distance. `exact` is told by half."""
    if distance == 0:
        return None
    if not math.isfinite(distance):
        return LOWEST
    rule = "numpy" if rule == "numpy" else "half"
    digits = min(HIGHEST, math.floor(-math.log10(distance)) + 2)
    while digits > LOWEST and not (
        distance < limit(rule, digits) if rule == "numpy" else distance <= limit(rule, digits)
    ):
        digits -= 1
    return digits


def passing(rule: str, a: Reals, b: Reals, distance: Reals) -> set[int]:
    """Every N of the searched range at which all elements match (rules round and truncate: not monotone in N)."""
    return {n for n in _SEARCHED if bool(matches(rule, n, a, b, distance).all())}


def all_searched() -> set[int]:
    return set(_SEARCHED)


def describe(rule: str, digits: int) -> str:
    """The rule as a person reads it."""
    return {
        "half": f"{digits} decimals, rule half: |a-b| <= 0.5e-{digits}",
        "numpy": f"{digits} decimals, rule numpy: |a-b| < 1.5e-{digits}",
        "round": f"{digits} decimals, rule round: equal after rounding to {digits} places",
        "truncate": f"{digits} decimals, rule truncate: equal after cutting at {digits} places",
        "exact": "rule exact: a == b",
    }[rule]
