"""Functions of one or two 8-bit tensors as LiteRT's reference kernels compute them, as tables of every stored value
(LITERT.md, Tables of LiteRT)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qverify.arithmetic import float32, functions64
from qverify.arithmetic.forms import NAMES
from qverify.arithmetic.requantize import scale_sums
from qverify.arithmetic.rounding_rules import Array, shift_right
from qverify.arithmetic.softmax_fixed_point import reciprocal_of

Single = np.float32
GEMMLOWP = NAMES["gemmlowp"]
INT16 = 2**15 - 1
HIGH_RESOLUTION = 7  # bits by which HARD_SWISH's input is shifted left
SQUARED_SHIFT, COMPARED_SHIFT = (
    7,
    8,
)  # bits by which operands of SQUARED_DIFFERENCE and of a comparison are shifted left
ROOT_FRACTION = 20  # fraction bits of RSQRT's reciprocal


@dataclass(frozen=True, slots=True)
class Codes:
    """The stored values of an 8-bit tensor. scale: a float32. dtype: int8 or uint8."""

    scale: float
    zero: int
    dtype: str

    def centred(self) -> Array:
        """Returns every stored value from the lowest, without the zero point, int64 [256]."""
        limits = np.iinfo(self.dtype)
        return np.arange(limits.min, int(limits.max) + 1, dtype=np.int64) - self.zero

    def reals(self) -> Array:
        """Returns the real value of every stored value, float32 [256]."""
        return Single(self.scale) * self.centred().astype(Single)

    def clip(self, values: Array) -> Array:
        """Returns values, which have the zero point, as stored values."""
        limits = np.iinfo(self.dtype)
        return np.clip(values, int(limits.min), int(limits.max)).astype(self.dtype)

    def quantize(self, real: float) -> int:
        """Returns a limit of an activation as a stored value, which may be outside the type."""
        scaled = Single(real) / Single(self.scale)
        return self.zero + int(np.trunc(scaled + np.copysign(Single(0.5), scaled)))


def scale(values: Array, real: float) -> Array:
    """Returns integers (int64) multiplied by a real scale: a multiplier of 31 bits, rounded twice."""
    return scale_sums(GEMMLOWP, values, np.array([real]))


def limited(x: Codes, y: Codes, low: float, high: float) -> Array:
    """Returns the table of a RELU with these limits."""
    values = scale(x.centred(), float(Single(x.scale) / Single(y.scale))) + y.zero
    least = -np.inf if np.isneginf(low) else y.quantize(low)
    most = np.inf if np.isposinf(high) else y.quantize(high)
    return y.clip(np.clip(values, least, most))


def leaky_relu(x: Codes, y: Codes, alpha: float) -> Array:
    """Returns the table of LEAKY_RELU."""
    values, single = x.centred(), Single(x.scale)
    below = _signed_scale(values, float(single * Single(alpha) / Single(y.scale)))
    return y.clip(np.where(values >= 0, scale(values, float(single / Single(y.scale))), below) + y.zero)


def _signed_scale(values: Array, real: float) -> Array:
    """Returns integers multiplied by a real scale of any sign."""
    if real == 0:
        return np.zeros_like(values)
    return scale(values, real) if real > 0 else -scale(values, -real)


def prelu(x: Codes, slope: Codes, y: Codes) -> Array:
    """Returns the table of PRELU, [256, 256]: a row for every value of x, a column for every slope."""
    values, slopes = x.centred()[:, None], slope.centred()[None]
    above = scale(values, float(Single(x.scale) / Single(y.scale)))
    below = scale(values * slopes, float(Single(x.scale) * Single(slope.scale) / Single(y.scale)))
    return y.clip(np.where(values >= 0, above, below) + y.zero)


def absolute(x: Codes, y: Codes) -> Array:
    """Returns the table of ABS, which scales only if the scales differ."""
    values = np.abs(x.centred())
    real = float(Single(x.scale) / Single(y.scale))
    return y.clip((values if x.scale == y.scale else scale(values, real)) + y.zero)


def hard_swish(x: Codes, y: Codes) -> Array:
    """Returns the table of HARD_SWISH: 16-bit products, each rounded."""
    fine = float(Single(1 / 128) * Single(x.scale))
    wide = x.centred() << HIGH_RESOLUTION
    out, out_exponent = _sixteen_bits(float(Single(fine) / Single(y.scale)))
    gate, gate_exponent = _sixteen_bits(float(Single(fine) / Single(3.0 / 32768.0)))
    before = _high16(wide, out)
    part = _saturate(wide << (gate_exponent - 1)) if gate_exponent > 0 else wide
    part = _high16(part, gate)
    if gate_exponent > 0:
        part = _saturate(part << 1)
    elif gate_exponent < 0:
        part = shift_right(part, np.asarray(-gate_exponent), "half away from zero")
    part = (part + (1 << 15)) >> 1
    product = part * before
    product = np.sign(product) * (np.abs(product) >> 15)  # cut off
    if out_exponent > 0:
        product = _saturate(product << out_exponent)
    else:
        product = shift_right(product, np.asarray(-out_exponent), "half away from zero")
    return y.clip(product + y.zero)


def _sixteen_bits(real: float) -> tuple[int, int]:
    """Returns a scale as a multiplier of 15 fraction bits, rounded from one of 31, and the exponent."""
    fraction, exponent = np.frexp(real)
    whole = int(np.floor(fraction * 2.0**31 + 0.5))
    if whole == 2**31:
        whole, exponent = whole // 2, exponent + 1
    return min((whole + (1 << 15)) >> 16, INT16), int(exponent)


def _saturate(values: Array) -> Array:
    return np.clip(values, -INT16 - 1, INT16)


def _high16(values: Array, factor: int) -> Array:
    """Returns values * factor / 2^15, halves away from zero as in 32 bits."""
    product = values * factor
    moved = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return _saturate(np.sign(moved) * (np.abs(moved) >> 15))


def from_reals(x: Codes, y: Codes, function: Callable[[Array], Array]) -> Array:
    """Returns the table of a function that is computed in float32."""
    with np.errstate(all="ignore"):
        reals = function(x.reals().astype(np.float64)).astype(Single)
        scaled = reals * (Single(1) / Single(y.scale))
        rounded = np.trunc(scaled + np.copysign(Single(0.5), scaled))
    return y.clip(np.nan_to_num(rounded.astype(np.float64), nan=0.0, posinf=1e9, neginf=-1e9) + y.zero)


def root(x: Codes, y: Codes) -> Array:
    """Returns the table of SQRT, whose results are cut off. Values below the zero point, at which LiteRT stops, give
    it."""
    reals = np.sqrt(np.maximum(x.reals(), Single(0)))
    return y.clip(np.trunc(reals / Single(y.scale)).astype(np.int64) + y.zero)


def tanh(values: Array) -> Array:
    return float32.tanh64(values)


def elu(values: Array) -> Array:
    """Returns x, or exp(x) - 1 below 0."""
    return np.where(values < 0, functions64.expm1(np.minimum(values, 0.0)), values)


def gelu(values: Array) -> Array:
    """Returns x * erfc(-x / sqrt(2)) / 2, in steps of float32."""
    x = values.astype(Single)
    inner = (x * Single(0.7071067811865476)).astype(np.float64)
    return Single(0.5) * x * (1.0 + float32.erf64(inner)).astype(Single)


def gelu_of_tanh(values: Array) -> Array:
    """Returns GELU's approximation by the hyperbolic tangent."""
    inner = 0.7978845608028654 * (values + 0.044715 * values * values * values)
    return values * 0.5 * (1.0 + float32.tanh64(inner))


def reciprocal_root(x: Codes, y: Codes) -> Array:
    """Returns the table of RSQRT: Newton steps in fixed point. Values up to the zero point give the highest."""
    values, found = x.centred(), np.empty(256, np.int64)
    real = 1.0 / (float(np.sqrt(Single(x.scale))) * y.scale)
    for k, value in enumerate(values.tolist()):
        if value <= 0:
            found[k] = 1 << 20
            continue
        multiplier, shift = invert_root(value)
        whole = multiply_by(1, multiplier, shift + ROOT_FRACTION)
        found[k] = scale(np.array([whole]), real / 2.0**ROOT_FRACTION)[0] + y.zero
    return y.clip(found)


def invert_root(value: int) -> tuple[int, int]:
    """Returns 1 / sqrt(value) of a positive int32 as a multiplier with 31 fraction bits, and a shift (negative: to the
    right)."""
    if value <= 1:
        return 2**31 - 1, 0
    shift = 11
    while value >= 1 << 29:
        value, shift = value // 4, shift + 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    shift, value = shift - pairs, value << 2 * pairs
    given = value >> 1
    half = _round_half_away(given, 1)
    three_halves, x = (1 << 28) + (1 << 27), 1 << 28  # with 3 bits before 28 fraction bits
    for _ in range(5):
        cubed = _saturate32(_high32(_high32(x, x), x) << 6)
        x = _saturate32((_high32(three_halves, x) - _high32(half, cubed)) << 3)
    x = _high32(x, 1518500250)  # sqrt(1/2)
    if shift < 0:
        x, shift = x << -shift, 0
    return x, -shift


def multiply_by(value: int, multiplier: int, shift: int) -> int:
    """Returns an integer multiplied by a multiplier of 31 fraction bits and a power of two, rounded twice."""
    product = _high32(_saturate32(value << max(shift, 0)), multiplier)
    return _round_half_away(product, max(-shift, 0))


def _high32(a: int, b: int) -> int:
    product = a * b
    moved = product + (1 << 30 if product >= 0 else 1 - (1 << 30))
    return moved >> 31 if moved >= 0 else -(-moved >> 31)


def _round_half_away(value: int, shift: int) -> int:
    return int(shift_right(np.array([value], np.int64), np.asarray(shift), "half away from zero")[0])


def _saturate32(value: int) -> int:
    return max(-(2**31), min(2**31 - 1, value))


def squared_difference(a: Codes, b: Codes, y: Codes) -> Array:
    """Returns the table of SQUARED_DIFFERENCE, [256, 256]: a row for every value of a."""
    twice = 2.0 * float(max(Single(a.scale), Single(b.scale)))
    first, second = (scale(c.centred() << SQUARED_SHIFT, float(Single(c.scale)) / twice) for c in (a, b))
    apart = first[:, None] - second[None]
    real = twice * twice / ((1 << 2 * SQUARED_SHIFT) * float(Single(y.scale)))
    return y.clip(scale(apart * apart, real) + y.zero)


def compare(a: Codes, b: Codes, better: Callable[[Array, Array], Array]) -> Array:
    """Returns the table of a comparison, bool [256, 256]: a row for every value of a."""
    first, second = (scale(c.centred() << COMPARED_SHIFT, float(Single(c.scale))) for c in (a, b))
    return np.asarray(better(first[:, None], second[None]))


def divide(a: Codes, b: Codes, y: Codes) -> Array:
    """Returns the table of DIV, [256, 256]: a row for every value of a. A divisor of 0, at which LiteRT stops, gives the
    zero point."""
    fraction, exponent = np.frexp(float(Single(a.scale) / (Single(b.scale) * Single(y.scale))))
    multiplier = int(np.floor(fraction * 2.0**31 + 0.5))
    if multiplier == 2**31:
        multiplier, exponent = multiplier // 2, exponent + 1
    found = np.zeros((256, 256), np.int64)
    dividends = a.centred()
    for column, divisor in enumerate(b.centred().tolist()):
        if divisor:
            values = dividends if divisor > 0 else -dividends
            found[:, column] = _quotients(values, abs(divisor), multiplier, int(exponent))
    return y.clip(found + y.zero)


def _quotients(values: Array, divisor: int, multiplier: int, exponent: int) -> Array:
    """Returns values / divisor * multiplier / 2^31 * 2^exponent: the reciprocal in fixed point, each product rounded."""
    zeros = 32 - divisor.bit_length()
    inverse = int(reciprocal_of(np.array([(divisor << zeros) - 2**31], np.int64))[0])
    found = []
    for value in values.tolist():
        room = 31 - (value if value >= 0 else -value - 1).bit_length()
        quotient = _high32(_high32(value << room, inverse), multiplier)
        found.append(_shift_as_x86(quotient, 31 - zeros + room - exponent))
    return np.array(found, np.int64)


def _shift_as_x86(value: int, shift: int) -> int:
    """Returns value / 2^shift, halves away from zero. A shift that C++ leaves undefined gives what x86-64 computes."""
    if 0 <= shift < 32:
        return _round_half_away(value, shift)
    mask = (1 << (shift & 63)) - 1 & (2**32 - 1)
    mask = mask - 2**32 if mask >= 2**31 else mask
    return (value >> (shift & 31)) + ((value & mask) > (mask >> 1) + (value < 0))


def negated(x: Codes) -> Array:
    """Returns the table of NEG: the stored numbers with another sign, whatever the zero points are."""
    limits = np.iinfo(x.dtype)
    return (-np.arange(limits.min, int(limits.max) + 1, dtype=np.int64)).astype(np.int8).astype(x.dtype)


def summed_in_float32(x: Codes, y: Codes, count: int) -> Array:
    """Returns the table of SUM as LiteRT's default kernels compute it, [65536], for every sum of `count` stored values counted from
    the lowest code."""
    limits = np.iinfo(x.dtype), np.iinfo(y.dtype)
    sums = (np.arange(65536, dtype=np.int64) + count * limits[0].min).astype(Single)
    ratio = Single(Single(x.scale) / Single(y.scale))
    real = sums * ratio + Single(Single(Single(-x.zero) * ratio) * Single(count))
    rounded = np.sign(real) * np.floor(np.abs(real) + Single(0.5))
    return np.clip(rounded.astype(np.int64) + y.zero, limits[1].min, limits[1].max).astype(y.dtype)


def summed(x: Codes, y: Codes, count: int) -> Array:
    """Returns the table of SUM, [65536], for every sum of `count` stored bytes, which LiteRT reads as uint8 also if they
    are int8, and writes so."""
    sums = np.arange(65536, dtype=np.int64) - x.zero * count
    found = scale(sums, float(Single(x.scale)) / float(Single(y.scale))) + y.zero
    return np.clip(found, 0, 255).astype(np.uint8).view(y.dtype)
