"""mod computes another remainder: with the sign of the dividend, of absolute values, through a float quotient, in fewer
bits, or by a bit mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.altered_kernels.narrow_steps import float16
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, operand
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "mod-division"
OPS = ("mod",)
F = np.float32


def _euclid(a: Array, b: Array) -> Array:
    return np.remainder(a, np.abs(b))


def _quotient(a: Array, b: Array, rounded: Callable[[Array], Array], narrow: Callable[[Array], Array]) -> Array:
    return a - b * rounded(narrow(a) / narrow(b)).astype(np.int64)


def _f32(v: Array) -> Array:
    return v.astype(F)


def _reciprocal(a: Array, b: Array) -> Array:
    return a - b * np.floor(a.astype(F) * (F(1) / b.astype(F))).astype(np.int64)


def _bits(v: Array, count: int, signed: bool) -> Array:
    half = 1 << count - 1
    low = v & (2 * half - 1)
    return (low ^ half) - half if signed else low


def _power_above(b: Array) -> Array:
    """Returns the smallest powers of two that are not below the absolute values of the divisors."""
    return (2.0 ** np.ceil(functions64.log2(np.abs(b).astype(np.float64)))).astype(np.int64)


def _masked(a: Array, b: Array) -> Array:
    left = a & (np.abs(b) - 1)
    return np.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


WAYS: dict[str, Callable[[Array, Array], Array]] = {
    "the remainder has the sign of the dividend (C's %, truncated division)": np.fmod,
    "the remainder is never negative (Euclidean)": _euclid,
    "the remainder of absolute values is taken": lambda a, b: np.remainder(np.abs(a), np.abs(b)),
    "negative dividends are taken by absolute value": lambda a, b: np.remainder(np.abs(a), b),
    "a remainder of 0 becomes the divisor": lambda a, b: np.where(np.remainder(a, b) == 0, b, np.remainder(a, b)),
    "the divisor is always added to a negative remainder, also to 0": lambda a, b: np.where(
        a < 0, np.fmod(a, b) + b, np.fmod(a, b)
    ),
    "the quotient is given instead of the remainder": lambda a, b: a // b,
    "the truncated quotient is given instead of the remainder": lambda a, b: np.trunc(a / b).astype(np.int64),
    "a bit mask (divisor - 1) is used, as for powers of two": lambda a, b: a & (b - 1),
    "a bit mask (the divisor's absolute value - 1) is used, as for powers of two": lambda a, b: a & (np.abs(b) - 1),
    "a bit mask (the divisor's absolute value - 1) is used, and the divisor added where the signs differ": _masked,
    "a bit mask of the next power of two is used": lambda a, b: a & (_power_above(b) - 1),
    "a bit mask of the power of two below is used": lambda a, b: a & np.maximum(_power_above(b) // 2 - 1, 0),
    "a bitwise and of the operands is given": lambda a, b: a & b,
    "the difference of the operands is given": lambda a, b: a - b,
    "the remainder of absolute values has the sign of the dividend": lambda a, b: np.sign(a) * (np.abs(a) % np.abs(b)),
    "the remainder of absolute values has the sign of the divisor": lambda a, b: np.sign(b) * (np.abs(a) % np.abs(b)),
    "the remainder has the sign of the dividend, with the divisor added where it is negative": lambda a, b: np.where(
        np.fmod(a, b) < 0, np.fmod(a, b) + b, np.fmod(a, b)
    ),
    "the remainder has the sign of the dividend, with the divisor's absolute value added where it is negative": lambda a, b: (
        np.where(np.fmod(a, b) < 0, np.fmod(a, b) + np.abs(b), np.fmod(a, b))
    ),
    "the remainder of the dividend by the divisor + 1": lambda a, b: np.remainder(a, np.where(b == -1, 1, b + 1)),
    "the remainder of the dividend by the divisor - 1": lambda a, b: np.remainder(a, np.where(b == 1, 1, b - 1)),
    "0 is given for negative divisors": lambda a, b: np.where(b < 0, 0, np.remainder(a, b)),
    "the dividend is passed through for negative divisors": lambda a, b: np.where(b < 0, a, np.remainder(a, b)),
    "the operands are exchanged": lambda a, b: np.remainder(b, np.where(a == 0, 1, a)),
    "the divisor is subtracted once where the dividend is not smaller": lambda a, b: np.where(a >= b, a - b, a),
    "the dividend is passed through": lambda a, b: a + 0 * b,
    "the quotient is computed in float32": partial(_quotient, rounded=np.floor, narrow=_f32),
    "the quotient is computed in float32 and truncated": partial(_quotient, rounded=np.trunc, narrow=_f32),
    "the quotient is rounded to the nearest": partial(_quotient, rounded=np.rint, narrow=_f32),
    "the quotient is computed in float16": partial(_quotient, rounded=np.floor, narrow=float16),
    "the quotient is computed with a float32 reciprocal of the divisor": _reciprocal,
    "the divisor's absolute value is taken": lambda a, b: np.remainder(a, np.abs(b)),
    "the first divisor is used for all": lambda a, b: np.remainder(a, b.reshape(-1)[0]),
    "the operands are cut to 32 bits": lambda a, b: np.remainder(_bits(a, 32, True), b),
    "the dividend is taken as unsigned 32 bits": lambda a, b: np.remainder(_bits(a, 32, False), b),
    "the dividend is cut to 16 bits": lambda a, b: np.remainder(_bits(a, 16, True), b),
    "the dividend is cut to 8 bits": lambda a, b: np.remainder(_bits(a, 8, True), b),
    "the dividend is cut to unsigned 8 bits": lambda a, b: np.remainder(_bits(a, 8, False), b),
    "the result is cut to 8 bits": lambda a, b: _bits(np.remainder(a, b), 8, True),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op != "mod":
        return
    for rare, (text, way) in enumerate(WAYS.items()):
        yield from check_where_it_differs(case, f"mod: {text}", partial(_compute_output, way=way), 1.0 + 0.1 * rare)


def _compute_output(case: Case, way: Callable[[Array, Array], Array]) -> Array:
    inner = inner_case(case)
    assert inner is not None
    a, b = (operand(inner, n or "").astype(np.int64) for n in inner.last.inputs[:2])
    result = np.broadcast_to(way(a, b), inner.spec.shape).astype(inner.spec.numpy_dtype)
    return finished(case, result).reshape(case.spec.shape)
