"""Computes the multipliers and shifts of every integer rounding mode (formula: verifier/NUMERICS.md section 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.forms import NAMES, Form, addition_multipliers, multiplier_of

Ints = npt.NDArray[np.int32]


def bits(rounding: str, wide: bool) -> int:
    """Returns the number of bits of the multipliers in a mode other than pow2. wide: whether accumulators are int64."""
    narrow = int(rounding[3:]) if rounding.startswith("mul") else 31
    if wide:
        return min(narrow, 15)
    return narrow


def parameters(rounding: str, scale: npt.ArrayLike, wide: bool = False) -> Ints:
    """Returns multipliers and shifts, int32 [2, C], for real scales [C] (float64, > 0). Raises ValueError for a scale
    that the mode cannot represent."""
    real = np.atleast_1d(np.asarray(scale, np.float64))
    form = Form.parse(rounding)
    multiplier, shift = multiplier_of(form, real, wide)
    if rounding in ("gemmlowp", "cmsis") and not wide:
        shift = 31 - shift
        _check_range(shift, -(2**20), 30, rounding, real)
    else:
        _check_range(shift, -30 if form.bits == 1 else 1, 2**20, rounding, real)
    return np.stack([multiplier, shift]).astype(np.int32)


def _check_range(
    field: npt.NDArray[np.int64], low: int, high: int, rounding: str, real: npt.NDArray[np.float64]
) -> None:
    if field.min() < low or field.max() > high:
        raise ValueError(f"rounding {rounding} cannot represent a scale of {real.max():g} (or {real.min():g})")


def add_parameters(rounding: str, ratio_a: float, ratio_b: float) -> Ints:
    """Returns the multipliers of both operands and their common shift, int32 [3] (NUMERICS.md, add). For Sub, ratio_b
    is negative. Raises ValueError for ratios that the mode cannot represent."""
    form = Form("half up", bits(rounding, False)) if rounding not in NAMES else NAMES[rounding]
    return np.array(addition_multipliers(form, ratio_a, ratio_b), np.int32)
