"""Requantizes an accumulator to the output type in every rounding mode (formula: verifier/NUMERICS.md section 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.forms import ZERO_BIT, Form, steps
from qverify.arithmetic.rounding_rules import RULES, Array, round_real, shift_right


def requantize(
    acc: Array, rq: Array, zero_point: int, low: int, high: int, dtype: str, rounding: str, wide: bool, axis: int = 1
) -> Array:
    """Returns the accumulator requantized to dtype. acc: int32, int64, or exact integers in float. rq: float32 or
    float64 [C], or int32 [2, C], along `axis`; or int32 [3, C] for a node that rounds as tflite-single in any integer
    mode."""
    along = [1] * acc.ndim
    if rq.shape[-1] > 1:
        along[axis] = -1
    if rq.dtype in (np.float32, np.float64):
        value = np.array(acc, rq.dtype)  # an array, even if acc is a single number
        value *= rq.reshape(along)
        return _finish(value, zero_point, low, high, dtype)
    result = shifted(
        acc.astype(np.int64),
        rq[0].reshape(along).astype(np.int64),
        rq[1].reshape(along).astype(np.int64),
        choose_rounding(rq, rounding),
        wide,
    )
    return np.clip(result + zero_point, low, high).astype(dtype)


def choose_rounding(rq: Array, rounding: str) -> str:
    """Returns the rounding mode of a node with these int32 parameters, in a file of mode `rounding`: tflite-single if
    there are three rows."""
    return "tflite-single" if len(rq) == 3 else rounding


def _finish(value: Array, zero_point: int, low: int, high: int, dtype: str) -> Array:
    np.rint(value, out=value)
    np.clip(value, low - zero_point, high - zero_point, out=value)
    value += zero_point
    return value.astype(dtype)


def shifted(acc: Array, multiplier: Array, shift: Array, rounding: str, wide: bool) -> Array:
    """Returns acc scaled in an integer mode, before zero point and clip. All arrays are int64."""
    if rounding.startswith("pow2"):
        return _power_of_two(acc, shift, rounding)
    if rounding in ("gemmlowp", "cmsis") and not wide:  # the high halves of both are this one, for products of any sign
        high = lift(acc, shift) * multiplier
        high += 2**30
        high >>= 31
        return rounding_divide_by_pot(high, np.maximum(-shift, 0))
    return half_up(acc * multiplier, shift)


def half_up(value: Array, shift: Array) -> Array:
    """Returns (value + 2^(shift-1)) >> shift, 0 where shift > 62; shift >= 1."""
    shift = np.asarray(shift)
    if shift.size and shift.min() >= 1 and shift.max() <= 62:
        value = value + (np.int64(1) << (shift - 1))
        value >>= shift
        return value
    safe = np.clip(shift, 1, 62)
    return np.where(shift > 62, 0, (value + (np.int64(1) << (safe - 1))) >> safe)


def half_away(value: Array, shift: Array) -> Array:
    """Returns value / 2^shift, halves rounded away from zero; 0 where shift > 62."""
    return np.sign(value) * half_up(np.abs(value), shift)


def lift(acc: Array, shift: Array) -> Array:
    """Returns acc * 2^shift where the shift is positive, saturated to int32. acc: int32 in int64."""
    return np.clip(acc << np.maximum(shift, 0), -(2**31), 2**31 - 1) if (shift > 0).any() else acc


def rounding_divide_by_pot(value: Array, shift: Array) -> Array:
    """Returns gemmlowp's RoundingDivideByPOT; 0 where shift > 31."""
    safe = np.minimum(shift, 31)
    down = value < 0  # halves of negative numbers are rounded down
    if not (shift > 0).all():
        down &= shift > 0
    rounded = value + ((np.int64(1) << safe) >> 1)
    rounded -= down
    rounded >>= safe
    return np.where(shift > 31, 0, rounded) if (shift > 31).any() else rounded


def _power_of_two(acc: Array, shift: Array, rounding: str) -> Array:
    if rounding == "pow2-floor":
        down = acc >> np.clip(shift, 0, 63)
    elif rounding == "pow2-half-away":
        down = half_away(acc, shift)
    else:
        down = half_up(acc, shift)
    return down if (shift >= 1).all() else np.where(shift >= 1, down, acc << np.clip(-shift, 0, 30))


def scale_sums(form: Form, acc: Array, scale: npt.ArrayLike, zero: int = 0, wide: bool = False) -> Array:
    """Returns sums (int64) scaled by real scales (float64, one or along the last axis) in a form, rounded to integers
    before the zero point is added and the result is clipped. zero: the zero point, which counts if the form has it
    inside. wide: whether sums are int64 and not int32. Raises ValueError for a scale that the form cannot represent."""
    if form.is_exact:
        value = acc.astype(np.float64) * np.asarray(scale, np.float64)
        return round_real(value, form.rounding, zero if form.zero_inside else 0).astype(np.int64)
    return apply_steps(acc, steps(form, scale, wide).astype(np.int64), zero)


def apply_steps(acc: Array, rq: Array, zero: int = 0) -> Array:
    """Returns sums (int64) multiplied and shifted. rq: int64 [5, ...], whose rows broadcast with the sums (NUMERICS.md
    section 1); a multiplier below zero is that of the result. zero: the zero point."""
    multiplier, pre, first, last, rules = rq
    rules = int(rules.max(initial=0))  # the same in every column
    inside = zero if rules & ZERO_BIT else 0
    if (pre < 0).any():
        acc = shift_right(acc, np.maximum(-pre, 0), RULES[rules & 7])
    if (pre > 0).any():
        acc = lift(acc, pre)
    negative = (multiplier < 0).any()
    value = acc * (np.abs(multiplier) if negative else multiplier)
    if first.any():
        value = shift_right(value, first, RULES[rules >> 4 & 7])
    if last.any():
        value = shift_right(value, last, RULES[rules >> 8 & 7], inside)
    return np.where(multiplier < 0, -value, value) if negative else value
