"""Requantizes an accumulator to the output type in every rounding mode (formula: verifier/NUMERICS.md section 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.arithmetic.float32 import fma32
from qverify.arithmetic.forms import MOST_SHIFT, NAMES, ZERO_BIT, Form, exact_code, steps
from qverify.arithmetic.rounding_rules import RULES, Array, round_real, shift_right

HALF_EVEN = RULES.index("half even")
TWO_STEPS = 6  # rows of an rq that scales twice in float32


def requantize(
    acc: Array, rq: Array, zero_point: int, low: int, high: int, dtype: str, rounding: str, wide: bool, axis: int = 1
) -> Array:
    """Returns the accumulator requantized to dtype. acc: int32, int64, or exact integers in float. rq: as in NUMERICS.md
    section 1, along `axis`; or as steps_of returns it."""
    along = [1] * acc.ndim
    if rq.shape[-1] > 1:
        along[axis] = -1
    if rq.ndim == 2 and len(rq) == (4 if rq.dtype == np.float32 else TWO_STEPS):
        return _in_float32(acc, rq.reshape(len(rq), *along), low, high, dtype)
    if rq.dtype.kind == "f":
        value = np.array(acc, rq.dtype)  # an array, even if acc is a single number
        value *= (rq if rq.ndim == 1 else rq[0]).reshape(along)
        if rq.ndim == 1 or rq[1, 0] == HALF_EVEN:
            return _finish(value, zero_point, low, high, dtype)
        return _add_zero(round_by_code(value, int(rq[1, 0]), zero_point), zero_point, low, high, dtype)
    fields = steps_of(rq, rounding, wide)
    fields = fields.reshape(len(fields), *along)
    whole = acc.astype(np.int64, copy=False)
    if len(fields) == 7:
        whole, zero_point = wrap_int32(whole + fields[5]).astype(np.int64), zero_point + fields[6]
    result = apply_steps(whole, fields[:5], 0 if len(fields) == 7 else zero_point, wide)
    return _add_zero(result, zero_point, low, high, dtype)


def _add_zero(value: Array, zero_point: Any, low: int, high: int, dtype: str) -> Array:
    """Returns integers of which nobody has another use with the zero point, clipped."""
    value += zero_point
    return np.asarray(np.clip(value, low, high, out=value if value.ndim else None)).astype(dtype)


def _in_float32(acc: Array, rq: Array, low: int, high: int, dtype: str) -> Array:
    """Returns the accumulator requantized by an rq of float32 in four rows: S, a summand of the sum, one of the product,
    one of the result; in six rows, of float64, two more: what the sum is multiplied by, and added to, after that."""
    scale, before, inside, after, *more = (r if k in (1, 3) else r.astype(np.float32) for k, r in enumerate(rq))
    value = wrap_int32(acc.astype(np.int64) + before.astype(np.int64)).astype(np.float32) * scale
    value += inside
    if more:
        value = fma32(*np.broadcast_arrays(value, *more))
    return (np.rint(np.clip(value, low - after, high - after)) + after).astype(dtype)


def steps_of(rq: Array, rounding: str, wide: bool) -> Array:
    """Returns integer parameters as the rows of NUMERICS.md section 1, int64 [5, C] or [7, C]. rq: these, or int32 [2, C]
    in a file of mode `rounding`."""
    fields = rq.astype(np.int64, copy=False)
    if len(fields) in (5, 7):
        return fields
    multiplier, shift = fields
    none = np.zeros_like(shift)
    if rounding.startswith("pow2"):
        multiplier, pre, first = np.int64(1) << np.clip(-shift, 0, 30), none, none
    elif rounding in ("gemmlowp", "cmsis") and not wide:
        pre, first, shift = np.maximum(shift, 0), none + 31, -shift
    else:
        pre, first, rounding = none, none, "tflite-single"
    codes = none + (RULES.index(NAMES[rounding].rounding) << 8)
    return np.stack([multiplier, pre, first, np.clip(shift, 0, MOST_SHIFT), codes])


def stated_scale(rq: Array, rounding: str, wide: bool) -> Array:
    """Returns the scales that an rq states, float64 [C]."""
    if rq.dtype.kind == "f":
        scale = (rq if rq.ndim == 1 else rq[0]).astype(np.float64)
        return scale * rq[4] if rq.ndim == 2 and len(rq) == TWO_STEPS else scale
    multiplier, pre, first, last, _ = steps_of(rq, rounding, wide).astype(np.float64)
    return np.asarray(multiplier * 2.0 ** (pre - first - last))


def subtracts(rq: Array) -> bool:
    """Returns whether the rq of an addition is that of a difference."""
    return bool(((rq[:2, 0] if rq.ndim == 2 else rq[:2]) < 0).any())


def _finish(value: Array, zero_point: int, low: int, high: int, dtype: str) -> Array:
    np.rint(value, out=value)
    np.clip(value, low - zero_point, high - zero_point, out=value)
    value += zero_point
    return value.astype(dtype)


def shifted(acc: Array, multiplier: Array, shift: Array, rounding: str, wide: bool) -> Array:
    """Returns acc scaled in an integer mode, before zero point and clip. All arrays are int64."""
    return apply_steps(acc, steps_of(np.stack(np.broadcast_arrays(multiplier, shift)), rounding, wide), 0, wide)


def half_up(value: Array, shift: Array) -> Array:
    """Returns (value + 2^(shift-1)) >> shift, 0 where shift > 62; shift >= 1."""
    return shift_right(value, np.minimum(shift, MOST_SHIFT), "half up")


def lift(acc: Array, shift: Array) -> Array:
    """Returns acc * 2^shift, saturated to int32, where the shift is positive, and acc elsewhere."""
    limits = -(2**31), 2**31 - 1
    lifted = np.clip(np.clip(acc, *limits) << np.maximum(shift, 0), *limits)
    return lifted if (shift > 0).all() else np.where(shift > 0, lifted, acc)


def scale_sums(form: Form, acc: Array, scale: npt.ArrayLike, zero: int = 0, wide: bool = False) -> Array:
    """Returns sums (int64) scaled by real scales (float64, one or along the last axis) in a form, rounded to integers
    before the zero point is added and the result is clipped. zero: the zero point, which counts if the form has it
    inside. wide: whether sums are int64 and not int32. Raises ValueError for a scale that the form cannot represent."""
    if form.is_exact:
        return round_by_code(acc.astype(np.float64) * np.asarray(scale, np.float64), exact_code(form), zero).astype(
            np.int64
        )
    return apply_steps(acc, steps(form, scale, wide).astype(np.int64), zero, wide)


def round_by_code(value: Array, code: int, zero: int) -> Array:
    """Returns real values rounded to whole numbers by the rule of this number, with 8 added if the zero point counts."""
    return round_real(value, RULES[code & 7], zero if code & 8 else 0)


def apply_steps(acc: Array, rq: Array, zero: int = 0, wide: bool = False) -> Array:
    """Returns sums (int64) multiplied and shifted. rq: int64 [5, ...], whose rows broadcast with the sums (NUMERICS.md
    section 1); a multiplier below zero is that of the result. zero: the zero point. wide: whether the sums may exceed
    int32, so that products may exceed int64 and wrap."""
    multiplier, pre, first, last, codes = rq
    rules = int(codes.flat[0]) if codes.size else 0
    if pre.any():
        if (pre < 0).any():
            acc = shift_right(acc, np.maximum(-pre, 0), RULES[rules & 7])
        if (pre > 0).any():
            acc = lift(acc, pre)
    negative = (multiplier < 0).any()
    value = acc * (np.abs(multiplier) if negative else multiplier)
    if first.any():
        value = shift_right(value, first, RULES[rules >> 4 & 7], short=not wide)
    if last.any():
        value = shift_right(value, last, RULES[rules >> 8 & 7], zero if rules & ZERO_BIT else 0, not wide)
    if negative:
        value = np.where(multiplier < 0, -value, value)
    return np.clip(value, -(2**62), 2**62) if wide else value


def divide_stored(acc: Array, rq: Array, count: Array | int) -> Array:
    """Returns the quotient of stored integers, halves away from zero, without their zero point. acc: their sum without it.
    rq: it, int32 [1]. count: how many they are."""
    point = np.int64(rq[0])
    total = acc + point * count
    return np.asarray(np.sign(total) * ((np.abs(total) + count // 2) // count) - point)
