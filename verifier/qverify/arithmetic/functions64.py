"""Functions of float64 with the same bits on every processor, for whatever is judged, recorded, hashed or shown.

numpy's own (np.exp, np.log2, np.power ...) and those of the C library choose their code by the processor's features and
differ in the last bit. These use additions, products, quotients and roots only, like those of float32.py, and are within
a few units of the last place. Arguments are arrays or numbers of any real type."""

from __future__ import annotations

from math import factorial, frexp, inf

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import LN2_HIGH, LN2_LOW, LOG, Array, atan64, exp64, log64, sin64, sinh64

LN2 = 0.6931471805599453
_EXPM1 = tuple(1.0 / factorial(k) for k in range(1, 14))
_LOG1P = tuple(1.0 / (2 * k + 1) for k in range(15))
MOST_SQUARINGS = 1024  # whole exponents up to this are computed by products


def _real(x: npt.ArrayLike) -> Array:
    return np.asarray(x, np.float64)


def _sum_powers(factors: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, factors[-1])
    for factor in reversed(factors[:-1]):
        total = total * x + factor
    return total


def exp(x: npt.ArrayLike) -> Array:
    """Returns e to the power of x."""
    return exp64(_real(x))


def expm1(x: npt.ArrayLike) -> Array:
    """Returns exp(x) - 1, also near 0."""
    x = _real(x)
    near = np.clip(x, -0.35, 0.35)
    return np.where(np.abs(x) < 0.35, near * _sum_powers(_EXPM1, near), exp64(x) - 1.0)


def exp2(x: npt.ArrayLike) -> Array:
    """Returns 2 to the power of x; exact for whole x."""
    x = _real(x)
    safe = np.where(np.isfinite(x), np.clip(x, -1100.0, 1100.0), 0.0)
    whole = np.rint(safe)
    with np.errstate(over="ignore", under="ignore"):
        y = np.ldexp(exp64((safe - whole) * LN2), whole.astype(np.int64))
    return np.where(np.isfinite(x), y, np.where(x == -np.inf, 0.0, x))


def log(x: npt.ArrayLike) -> Array:
    """Returns the natural logarithm; -inf at 0, NaN below."""
    with np.errstate(invalid="ignore"):  # of infinity
        return log64(_real(x))


def log1p(x: npt.ArrayLike) -> Array:
    """Returns log(1 + x), also near 0."""
    x = _real(x)
    near = np.clip(x, -0.3, 0.4)
    f = near / (2.0 + near)
    return np.where((x > -0.3) & (x < 0.4), 2.0 * f * _sum_powers(_LOG1P, f * f), log(1.0 + x))


def log2(x: npt.ArrayLike) -> Array:
    """Returns the logarithm to base 2; exact for powers of two."""
    x = _real(x)
    inside = (x > 0) & np.isfinite(x)
    fraction, exponent = np.frexp(np.where(inside, x, 1.0))
    high = fraction > 0.7071067811865476
    part = log(np.where(high, fraction, 2.0 * fraction)) / LN2
    return np.where(inside, np.where(high, exponent, exponent - 1) + part, log(x))


def log10(x: npt.ArrayLike) -> Array:
    """Returns the logarithm to base 10; exact for powers of ten that float64 has."""
    x = _real(x)
    y = log(x) / 2.302585092994046
    whole = np.rint(np.where(np.isfinite(y), y, 0.0))
    tens = np.where(np.abs(whole) <= 22, whole, 0.0)
    is_power = _whole_power(np.full_like(x, 10.0), np.abs(tens))
    is_power = np.where(tens < 0, 1.0 / is_power, is_power) == x
    return np.where(is_power, tens, y)


def _whole_power(x: Array, exponent: Array) -> Array:
    """Returns x to whole exponents from 0 to MOST_SQUARINGS, by squarings and products."""
    left = np.broadcast_to(exponent, np.broadcast_shapes(x.shape, exponent.shape)).astype(np.int64)
    result, square = np.ones(left.shape), np.broadcast_to(x, left.shape)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        while left.any():
            result = np.where(left & 1, result * square, result)
            left = left >> 1
            square = square * square
    return result


def power(x: npt.ArrayLike, exponent: npt.ArrayLike) -> Array:
    """Returns x to the power of exponent; NaN for a negative x and an exponent that is not whole."""
    x, y = _real(x), _real(exponent)
    is_whole = (np.rint(y) == y) & np.isfinite(y)
    small = is_whole & (np.abs(y) <= MOST_SQUARINGS)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        product = _whole_power(x, np.where(small, np.abs(y), 0.0))
        product = np.where(y < 0, 1.0 / product, product)
        if small.all():
            return product
        size = exp64(y * log(np.abs(x)))
    odd = is_whole & (np.mod(np.where(is_whole, y, 0.0), 2.0) == 1.0)
    far = np.where((x < 0) & ~is_whole, np.nan, np.where((x < 0) & odd, -size, size))
    return np.where(small, product, far)


def tanh(x: npt.ArrayLike) -> Array:
    """Returns the hyperbolic tangent."""
    x = _real(x)
    part = expm1(-2.0 * np.abs(x))
    return np.copysign(part / (part + 2.0), x)


def sinh(x: npt.ArrayLike) -> Array:
    """Returns the hyperbolic sine."""
    return sinh64(_real(x))


def cosh(x: npt.ArrayLike) -> Array:
    """Returns the hyperbolic cosine."""
    x = _real(x)
    return 0.5 * (exp64(x) + exp64(-x))


def asinh(x: npt.ArrayLike) -> Array:
    """Returns the inverse hyperbolic sine."""
    x = _real(x)
    size = np.abs(x)
    with np.errstate(over="ignore", invalid="ignore"):
        near = log1p(size + size * size / (1.0 + np.sqrt(size * size + 1.0)))
    return np.copysign(np.where(size > 1e150, log(size) + LN2, near), x)


def acosh(x: npt.ArrayLike) -> Array:
    """Returns the inverse hyperbolic cosine; NaN below 1."""
    x = _real(x)
    with np.errstate(over="ignore", invalid="ignore"):
        near = log1p((x - 1.0) + np.sqrt((x - 1.0) * (x + 1.0)))
    return np.where(x < 1.0, np.nan, np.where(x > 1e150, log(x) + LN2, near))


def atanh(x: npt.ArrayLike) -> Array:
    """Returns the inverse hyperbolic tangent; NaN beyond 1."""
    x = _real(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.abs(x)
        return np.copysign(0.5 * log1p(2.0 * size / (1.0 - size)), x)


def sin(x: npt.ArrayLike) -> Array:
    """Returns the sine; NaN beyond 2^20."""
    return sin64(_real(x))


def cos(x: npt.ArrayLike) -> Array:
    """Returns the cosine; NaN beyond 2^20."""
    return sin64(_real(x), 1)


def tan(x: npt.ArrayLike) -> Array:
    """Returns the tangent; NaN beyond 2^20."""
    return sin(x) / cos(x)


def asin(x: npt.ArrayLike) -> Array:
    """Returns the inverse sine; NaN beyond 1."""
    x = _real(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        return atan64(x / np.sqrt((1.0 - x) * (1.0 + x)))


def acos(x: npt.ArrayLike) -> Array:
    """Returns the inverse cosine; NaN beyond 1."""
    x = _real(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2.0 * atan64(np.sqrt((1.0 - x) / (1.0 + x)))


def atan(x: npt.ArrayLike) -> Array:
    """Returns the inverse tangent."""
    return atan64(_real(x))


def log2_of(number: float) -> float:
    """Returns the logarithm to base 2 of a positive number, also of a whole number beyond float64; quicker than log2()."""
    shift = max(0, number.bit_length() - 1000) if isinstance(number, int) else 0
    fraction, exponent = frexp(number >> shift if isinstance(number, int) else number)
    if fraction <= 0.7071067811865476:
        fraction, exponent = 2.0 * fraction, exponent - 1
    f = (fraction - 1.0) / (fraction + 1.0)
    square, total = f * f, _LOG1P[-1]
    for factor in reversed(_LOG1P[:-1]):
        total = total * square + factor
    return exponent + shift + 2.0 * f * total / LN2


def log10_of(number: float) -> float:
    """Returns the logarithm to base 10 of a positive number, with the bits of log10(); quicker than it."""
    number = float(number)
    if not 0.0 < number < inf:
        return float(log10(number))
    fraction, exponent = frexp(number)
    if fraction < 0.7071067811865476:
        fraction, exponent = fraction * 2.0, exponent - 1
    f = (fraction - 1.0) / (fraction + 1.0)
    square, total = f * f, LOG[-1]
    for factor in reversed(LOG[:-1]):
        total = total * square + factor
    y = (exponent * LN2_HIGH + ((2.0 * f) * total + exponent * LN2_LOW)) / 2.302585092994046
    tens = round(y)
    power_of_ten = float(10 ** abs(tens)) if abs(tens) <= 22 else 1.0
    return float(tens) if (1.0 / power_of_ten if tens < 0 else power_of_ten) == number and abs(tens) <= 22 else y


def log2_factorial(n: int) -> float:
    """Returns log2 of n!, for n up to 2^53 by Stirling's series."""
    if n < 32:
        return log2_of(factorial(n))
    x = float(n)
    rest = (1.0 / 12 - (1.0 / 360 - 1.0 / (1260 * x * x)) / (x * x)) / x
    return (x + 0.5) * log2_of(x) + (rest - x + 0.9189385332046727) / LN2


def log2_choices(n: int, k: int) -> float:
    """Returns log2 of the number of ways to choose k of n."""
    return log2_factorial(n) - log2_factorial(k) - log2_factorial(n - k)
