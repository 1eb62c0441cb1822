"""Computes the multipliers and shifts of every integer rounding mode (formula: verifier/NUMERICS.md section 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64

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
    if rounding.startswith("pow2"):
        shift = -np.rint(functions64.log2(real)).astype(np.int64)
        _check_range(shift, -30, 2**20, rounding, real)
        return np.stack([np.ones_like(shift), shift]).astype(np.int32)
    n = bits(rounding, wide)
    fraction, exponent = np.frexp(real)
    multiplier = np.floor(fraction * 2.0**n + 0.5).astype(np.int64)
    exponent = exponent.astype(np.int64)
    full = multiplier == 2**n
    multiplier[full] >>= 1
    exponent[full] += 1
    if rounding in ("gemmlowp", "cmsis") and not wide:
        _check_range(exponent, -(2**20), 30, rounding, real)
        return np.stack([multiplier, exponent]).astype(np.int32)
    _check_range(n - exponent, 1, 2**20, rounding, real)
    return np.stack([multiplier, n - exponent]).astype(np.int32)


def _check_range(
    field: npt.NDArray[np.int64], low: int, high: int, rounding: str, real: npt.NDArray[np.float64]
) -> None:
    if field.min() < low or field.max() > high:
        raise ValueError(f"rounding {rounding} cannot represent a scale of {real.max():g} (or {real.min():g})")


def add_parameters(rounding: str, ratio_a: float, ratio_b: float) -> Ints:
    """Returns the multipliers of both operands and their common shift, int32 [3] (NUMERICS.md, add). For Sub, ratio_b
    is negative. Raises ValueError for ratios that the mode cannot represent."""
    if rounding.startswith("pow2"):
        ratio_a, ratio_b = (float(np.sign(r) * 2.0 ** np.rint(functions64.log2(abs(r)))) for r in (ratio_a, ratio_b))
        n = 30
    else:
        n = min(bits(rounding, False), 30)
    for shift in range(62, 0, -1):
        m_a, m_b = (int(np.floor(r * 2.0**shift + 0.5)) for r in (ratio_a, ratio_b))
        if max(abs(m_a), abs(m_b)) < 2**n:
            return np.array([m_a, m_b, shift], np.int32)
    raise ValueError(
        f"rounding {rounding} cannot represent the scale ratios {ratio_a:g} and {ratio_b:g} of an addition"
    )
