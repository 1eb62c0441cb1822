"""A softmax of 8 bits in fixed point: exponentials with 31 fraction bits, sums with 19, one reciprocal a row. LiteRT's
reference kernels and TFLM compute so (verifier/qverify/ops/softmax.md)."""

from __future__ import annotations

import numpy as np

from qverify.arithmetic.forms import MOST_SHIFT
from qverify.arithmetic.rounding_rules import Array, shift_right

INPUT_FRACTION = 26  # fraction bits of a difference to the largest of its row; 5 bits are before them
SUM_FRACTION = 12  # bits by which exponentials are shifted right before they are added
ONE = np.int64(2**31 - 1)  # stands for 1 where all 31 bits are fraction bits
OUTPUT_BITS = 8
NEWTON_STEPS = 3
_EIGHTH, _THIRD = np.asarray(1895147668), np.asarray(715827883)  # exp(-1/8) and 1/3, times 2^31
# The exponent of a power of two, and exp(-that power) times 2^31
_FACTORS = tuple(
    (k, np.asarray(m))
    for k, m in (
        (-2, 1672461947),
        (-1, 1302514674),
        (0, 790015084),
        (1, 290630308),
        (2, 39332535),
        (3, 720401),
        (4, 242),
    )
)
_START, _SLOPE = np.asarray(1515870810), np.asarray(-1010580540)  # 48/17 and -32/17, times 2^29


def softmax(codes: Array, scale: float) -> Array:
    """Returns the results of rows [N, depth] of stored integers as steps of 1/256 from 0. scale: of the inputs."""
    below = codes.max(-1, keepdims=True).astype(np.int64) - codes
    return divide_terms(make_table(scale)[255 - below], -1)


def make_table(scale: float) -> Array:
    """Returns the exponentials, with 31 fraction bits, of stored integers that are 255 to 0 below the largest of their
    row, int32 [256]; 0 for those that do not count. scale: of the inputs."""
    difference = np.arange(256, dtype=np.int64) - 255
    fraction, exponent = np.frexp(min(float(np.float32(scale)) * 2.0**INPUT_FRACTION, 2.0**31 - 1))
    multiplier, left = int(np.floor(fraction * 2.0**31 + 0.5)), int(exponent)
    if multiplier == 2**31:
        multiplier, left = multiplier // 2, left + 1
    counted = difference >= -int(31 * 2.0**INPUT_FRACTION / 2.0**left)  # smaller ones are 0, and not in the sum
    shifted = np.clip(np.where(counted, difference, 0) << left, -(2**31), 2**31 - 1)
    terms = exponential(_high(shifted, np.asarray(multiplier)))
    return np.where(counted, terms, 0).astype(np.int32)


def divide_terms(terms: Array, axis: int) -> Array:
    """Returns exponentials divided by their sums along an axis, as steps of 1/256."""
    terms = terms.astype(np.int64)
    total = _divide(terms, np.asarray(SUM_FRACTION)).sum(axis, keepdims=True)
    total &= 2**32 - 1
    zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)  # before the first bit that is set
    parts = _high(reciprocal_of((total << zeros) - 2**31), terms)
    return _divide(parts, SUM_FRACTION - zeros + 31 - OUTPUT_BITS)


def exponential(value: Array) -> Array:
    """Returns e to the power of numbers of at most 0 that have INPUT_FRACTION fraction bits, with 31 fraction bits."""
    quarter = np.int64(1 << (INPUT_FRACTION - 2))
    part = (value & (quarter - 1)) - quarter  # in [-1/4, 0)
    x = (part << 5) + 2**28  # about the middle, -1/8
    square = _high(x, x)
    third = _high(_divide(_high(square, square), np.asarray(2)) + _high(square, x), _THIRD)
    polynomial = x + _divide(third + square, np.asarray(1))
    result, rest = np.clip(_EIGHTH + _high(polynomial, _EIGHTH), -(2**31), 2**31 - 1), part - value
    for power, factor in _FACTORS:
        result = np.where(rest >> (INPUT_FRACTION + power) & 1, _high(result, factor), result)
    return np.where(value == 0, ONE, result)


def reciprocal_of(value: Array) -> Array:
    """Returns 1 / (1 + x) for x in [0, 1), both with 31 fraction bits, by Newton's method."""
    half = (value + ONE + 1) >> 1  # of 1 + x
    result = _START + _high(half, _SLOPE)
    for _ in range(NEWTON_STEPS):
        result = result + _saturate(_high(result, 2**29 - _high(half, result)) << 2)
    return _saturate(result << 1)


def _divide(value: Array, shift: Array) -> Array:
    """Returns value / 2^shift, halves away from zero."""
    return shift_right(value, np.minimum(shift, MOST_SHIFT), "half away from zero")


def _high(a: Array, b: Array) -> Array:
    """Returns the product shifted right by 31 bits, halves up."""
    return np.asarray((a * b + 2**30) >> 31)


def _saturate(value: Array) -> Array:
    return np.clip(value, -(2**31), 2**31 - 1)
