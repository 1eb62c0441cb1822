"""float32 and float64 arithmetic in a defined order: exact fma, and qverify's own exp, tanh, log, erf (NUMERICS.md
section 3)."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def fma32(a: Array, b: Array, c: Array) -> Array:
    """Returns fl32(a*b + c) with one rounding, float32 in and out. The product is exact in float64; the sum is rounded
    to odd, then to float32, which equals a single rounding (53 >= 24 + 2 bits)."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = np.asarray(c, np.float64)
    total, error = two_sum(product, addend)
    if error.any():  # NaN, too; else the sum is exact
        total = round_to_odd(total, error)
    return total.astype(np.float32)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns a + b in float64, and its exact difference to the exact sum (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def round_to_odd(total: Array, error: Array) -> Array:
    """Returns total + error rounded to odd, float64. total: the sum rounded to nearest. error: its difference to the
    exact sum, of which the sign must be right."""
    bits = total.view(np.int64)
    odd = (error != 0) & ((bits & 1) == 0) & np.isfinite(total)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(odd, (bits + toward).view(np.float64), total)


_EXP = [1.0 / factorial(k) for k in range(14)]
LOG = [1.0 / (2 * k + 1) for k in range(15)]
_ERF = [(-1.0) ** k / (factorial(k) * (2 * k + 1)) for k in range(41)]
FEW_SUMS = 16  # below so many sums side by side, numpy's reduction may not add from left to right
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10


def _horner(coefficients: list[float], x: Array) -> Array:
    result = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result *= x
        result += c
    return result


def _power_of_two(exponent: Array) -> Array:
    """Returns 2^exponent, float64, for exponents of normal numbers."""
    return ((exponent + 1023) << 52).view(np.float64)


def exp64(x: Array) -> Array:
    """Returns exp(x), float64; inf above 709.7, 0 below -745."""
    safe = np.clip(np.where(np.isnan(x), 0.0, x), -745.0, 709.7)  # a NaN has no whole part
    n = np.rint(safe * 1.4426950408889634)
    r = (safe - n * LN2_HIGH) - n * LN2_LOW
    p = _horner(_EXP, r)
    whole = n.astype(np.int64)
    half = whole >> 1
    result = (p * _power_of_two(half)) * _power_of_two(whole - half)
    return np.where(np.isnan(x), np.nan, np.where(x > 709.7, np.inf, np.where(x < -745.0, 0.0, result)))


def tanh64(x: Array) -> Array:
    """Returns tanh(x), float64."""
    size = np.abs(x)
    t = exp64(2.0 * np.minimum(size, 20.0))
    mid = np.copysign(1.0 - 2.0 / (t + 1.0), x)
    return np.where(size > 20.0, np.copysign(1.0, x), np.where(size < 1e-5, x - ((x * x) * x) / 3.0, mid))


def sigmoid64(x: Array) -> Array:
    """Returns 1 / (1 + exp64(-x)), float64."""
    return 1.0 / (1.0 + exp64(-x))


def log64(x: Array) -> Array:
    """Returns the natural logarithm, float64; -inf at 0, NaN below."""
    positive = np.where(x > 0, x, 1.0)
    m, e = np.frexp(positive)
    small = m < 0.7071067811865476
    m = np.where(small, m * 2.0, m)
    n = np.where(small, e - 1, e).astype(np.float64)
    f = (m - 1.0) / (m + 1.0)
    p = _horner(LOG, f * f)
    result = n * LN2_HIGH + ((2.0 * f) * p + n * LN2_LOW)
    result = np.where(np.isinf(x), np.inf, result)
    return np.where(x == 0, -np.inf, np.where((x < 0) | np.isnan(x), np.nan, result))


def pow64(x: Array, y: float) -> Array:
    """Returns exp64(y * log64(x)), float64; 0 at x = 0."""
    return np.where(x == 0, 0.0, exp64(y * log64(x)))


def erf64(x: Array) -> Array:
    """Returns the error function, float64."""
    size, result = np.abs(x), np.ones_like(x)
    is_near, is_far = size < 2.5, (size >= 2.5) & (size < 6.0)
    near, far = size[is_near], size[is_far]
    result[is_near] = (1.1283791670955126 * near) * _horner(_ERF, near * near)
    t = np.zeros_like(far)
    for k in range(60, 0, -1):
        t = (k * 0.5) / (far + t)
    result[is_far] = 1.0 - exp64(-(far * far)) * (0.5641895835477563 / (far + t))
    return np.where(np.isnan(x), np.nan, np.where(x < 0, -result, result))


_SINH = [1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800]
_ATAN = [(-1.0) ** k / (2 * k + 1) for k in range(23)]
_SIN = [(-1.0) ** k / factorial(2 * k + 1) for k in range(10)]
_COS = [(-1.0) ** k / factorial(2 * k) for k in range(10)]


def sinh64(x: Array) -> Array:
    """Returns the hyperbolic sine, float64."""
    near = np.clip(x, -0.25, 0.25)
    return np.where(np.abs(x) < 0.25, near * _horner(_SINH, near * near), 0.5 * (exp64(x) - exp64(-x)))


def asinh64(x: Array) -> Array:
    """Returns the inverse hyperbolic sine, float64."""
    size, near = np.abs(x), np.clip(x, -1e-4, 1e-4)
    far = log64(size + np.sqrt(size * size + 1.0))
    return np.where(size < 1e-4, near * _horner([1.0, -1.0 / 6, 3.0 / 40], near * near), np.where(x < 0, -far, far))


def atanh64(x: Array) -> Array:
    """Returns the inverse hyperbolic tangent, float64; NaN beyond 1."""
    near = np.clip(x, -1e-4, 1e-4)
    far = 0.5 * log64((1.0 + x) / (1.0 - x))
    return np.where(np.abs(x) < 1e-4, near * _horner([1.0, 1.0 / 3, 1.0 / 5], near * near), far)


def atan64(x: Array) -> Array:
    """Returns the inverse tangent, float64."""
    size = np.abs(x)
    t = np.where(size > 1.0, 1.0 / np.where(size > 1.0, size, 1.0), size)
    high = t > 0.4142135623730951
    t = np.where(high, (t - 1.0) / (t + 1.0), t)
    y = np.where(high, 0.7853981633974483, 0.0) + t * _horner(_ATAN, t * t)
    y = np.where(size > 1.0, 1.5707963267948966 - y, y)
    return np.where(np.isnan(x), x, np.where(x < 0, -y, y))


def sin64(x: Array, quarters: int = 0) -> Array:
    """Returns sin(x + quarters * pi/2), float64; NaN beyond 2^20."""
    inside = np.abs(x) <= 1048576.0
    safe = np.where(inside, x, 0.0)
    n = np.rint(safe * 0.6366197723675814) + 0.0  # no -0
    r = ((safe - n * 1.5707963267341256) - n * 6.077100506303966e-11) - n * 2.0222662487959506e-21
    turn = (n.astype(np.int64) + quarters) & 3
    y = np.where(turn & 1, _horner(_COS, r * r), r * _horner(_SIN, r * r))
    return np.where(inside, np.where(turn & 2, -y, y), np.nan)


def sequential_sum(x: Array, axis: int) -> Array:
    """Returns the sum along axis, added left to right in the dtype of x. The axis is kept with length 1."""
    swapped = x.swapaxes(0, axis)
    if swapped[0].size < FEW_SUMS:  # numpy sums a single column in pairs
        total = np.add.accumulate(swapped, 0, dtype=x.dtype)[-1]
    else:
        start = x.dtype.type(-0.0)  # to which -0 is added without becoming +0
        total = np.add.reduce(np.ascontiguousarray(swapped), 0, dtype=x.dtype, initial=start)
    return total[None].swapaxes(0, axis)


def quantize(x: Array, scale: Array, zero_point: Array, dtype: str) -> Array:
    """Returns clip(RNE(fl32(x/s)) + z) in dtype. NaN becomes the minimum of the type. x, scale: float32."""
    limits, zero = np.iinfo(dtype), zero_point.astype(np.float32)
    q = np.asarray(x / scale)
    np.rint(q, out=q)
    np.clip(q, limits.min - zero, limits.max - zero, out=q)
    if np.isnan(q.min(initial=0)):
        q[np.isnan(q)] = np.broadcast_to(limits.min - zero, q.shape)[np.isnan(q)]
    q += zero
    return q.astype(dtype)


def quantize_in_float16(x: Array, scale: float, zero_point: int, dtype: str) -> Array:
    """Returns clip(v + z) in dtype, v the float16 nearest to fl32(x/s), rounded to an integer, halves away from zero: how
    Qualcomm's HTP quantizes. NaN becomes the minimum of the type. x: float32."""
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        v = (x / np.float32(scale)).astype(np.float16).astype(np.float64)
    q = np.nan_to_num(np.copysign(np.floor(np.abs(v) + 0.5), v), nan=-np.inf)
    return np.clip(q + zero_point, int(limits.min), int(limits.max)).astype(dtype)


def dynamic_parameters(x: Array) -> tuple[Array, int]:
    """Returns scale (float32) and zero point of uint8 for the range of x, which includes 0 (NUMERICS.md,
    dynamic_quantize)."""
    numbers = x[~np.isnan(x)]
    low, high = numbers.min(initial=np.float32(0)), numbers.max(initial=np.float32(0))
    with np.errstate(all="ignore"):
        scale = np.float32(1) if low == high else np.float32((high - low) / np.float32(255))
        at = -low / scale
    return np.array(scale), 255 if np.isnan(at) else int(np.rint(np.clip(at, 0, 255)))


def dequantize(q: Array, scale: Array, zero_point: Array) -> Array:
    """Returns fl32(fl32(q-z)*s), float32; q-z of 8- and 16-bit types is exact in float32."""
    if q.dtype.itemsize > 2:
        real = np.subtract(q, zero_point, dtype=np.int64, casting="unsafe").astype(np.float32)
    else:
        real = q.astype(np.float32)
        if zero_point.any():
            real -= zero_point.astype(np.float32)
    real *= scale
    return real
