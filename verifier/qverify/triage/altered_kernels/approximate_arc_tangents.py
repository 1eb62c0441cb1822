"""Approximations of the arc tangent that kernels use: fractions, polynomials, series, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import atan64
from qverify.triage.altered_kernels.approximate_functions import formatted, tables

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]


def _atan_by(x: Array, near: Function) -> Array:
    """Returns atan(x) from a function on -1..1; beyond that, pi/2 minus the function of 1/x."""
    far = np.abs(x) > 1
    y = near(np.where(far, 1 / np.where(x == 0, 1.0, x), x))
    return np.where(far, np.copysign(np.pi / 2, x) - y, y)


def _odd_series(x: Array, coefficients: tuple[float, ...]) -> Array:
    y = np.zeros_like(x)
    for c in reversed(coefficients):
        y = y * (x * x) + c
    return y * x


def arc_tangents() -> Iterator[tuple[str, Function]]:
    """Yields approximations of atan(x) by name."""
    near: dict[str, Function] = {
        "x/(1 + 0.28 x^2)": lambda x: x / (1 + 0.28 * x * x),
        "x/(1 + 0.28125 x^2)": lambda x: x / (1 + 0.28125 * x * x),
        "(pi/4) x": lambda x: np.pi / 4 * x,
        "(pi/4) x + 0.273 x (1 - |x|)": lambda x: np.pi / 4 * x + 0.273 * x * (1 - np.abs(x)),
        "x (pi/4 - (|x| - 1)(0.2447 + 0.0663 |x|))": lambda x: (
            x * (np.pi / 4 - (np.abs(x) - 1) * (0.2447 + 0.0663 * np.abs(x)))
        ),
        "x (0.9724 - 0.1919 x^2)": lambda x: x * (0.97239411 - 0.19194795 * x * x),
        "the polynomial of degree 9 of Abramowitz and Stegun": partial(
            _odd_series, coefficients=(0.9998660, -0.3302995, 0.1801410, -0.0851330, 0.0208351)
        ),
    }
    for terms in range(1, 13):
        series = tuple((-1.0) ** k / (2 * k + 1) for k in range(terms))
        near[f"{terms} term{'s' * (terms > 1)} of its series"] = partial(_odd_series, coefficients=series)
    for text, function in near.items():
        yield f"as {text} on -1..1, and pi/2 less that of 1/x beyond", partial(_atan_by, near=function)
        yield f"as {text} everywhere", function
    yield "as x", lambda x: x
    yield from formatted(atan64)
    yield from tables(atan64, (1, 2, 4, 8), True)
