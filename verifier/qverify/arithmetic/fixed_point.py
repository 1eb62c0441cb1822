"""The logistic function and the hyperbolic tangent of 16-bit fixed-point numbers, as LiteRT's recurrent operators compute them
(LITERT.md, Recurrent operators of a .tflite)."""

from __future__ import annotations

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.rounding_rules import Array

BITS, LOW, HIGH = 15, -32768, 32767  # fraction bits of a number from -1 to 1; the range of 16 bits
POWERS = range(-2, 5)  # e^-a is e^-(the rest of a quarter) times e^-(2^k) for each bit k of a
MOST_BITS = 4  # integer bits of the hyperbolic tangent's input


def divide_by_power(value: Array, bits: Array | int) -> Array:
    """Returns value / 2^bits, to the nearest integer, halves away from zero."""
    bits = np.asarray(bits, np.int64)
    half = np.where(bits > 0, np.left_shift(1, np.maximum(bits - 1, 0)), 0)
    return np.sign(value) * np.right_shift(np.abs(value) + half, bits)


def _product(a: Array | int, b: Array | int) -> Array:
    """Returns a * b / 2^15, to the nearest integer, halves up."""
    return np.right_shift(np.asarray(a, np.int64) * b + (1 << (BITS - 1)), BITS)


def _raised(a: Array, bits: int) -> Array:
    return np.clip(np.left_shift(np.asarray(a, np.int64), bits), LOW, HIGH)


def _constant(value: float, integer_bits: int = 0) -> int:
    """Returns a number in 16 bits, rounded from 32."""
    whole = int(np.floor(value * 2.0 ** (31 - integer_bits) + 0.5))
    return int(divide_by_power(np.array(whole), 16))


def _exponential(a: Array, bits: int) -> Array:
    """Returns e^a for a <= 0 with this number of integer bits, in 15 fraction bits."""
    fraction = BITS - bits
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter  # in [-1/4, 0)
    x = _raised(rest, bits) + (1 << (BITS - 3))  # around -1/8
    x2 = _product(x, x)
    x3, x4 = _product(x2, x), _product(x2, x2)
    more = divide_by_power(_product(divide_by_power(x4, 2) + x3, _constant(1 / 3)) + x2, 1)
    start = _constant(float(functions64.exp(-1 / 8)))
    made = np.clip(start + _product(start, x + more), LOW, HIGH)
    for exponent in (k for k in POWERS if k < bits):
        factor = _constant(float(functions64.exp(-(2.0**exponent))))
        made = np.where((rest - a) & (1 << (fraction + exponent)), _product(made, factor), made)
    return np.where(a == 0, HIGH, made)


def _reciprocal(a: Array) -> Array:
    """Returns 2/(1 + a) for a in [0, 1], in 13 fraction bits: three steps of Newton's method."""
    half = np.right_shift(a + HIGH + 1, 1)
    x = _constant(48 / 17, 2) + _product(half, _constant(-32 / 17, 2))
    for _ in range(3):
        x = x + _raised(_product(x, (1 << (BITS - 2)) - _product(half, x)), 2)
    return x


def logistic(codes: Array) -> Array:
    """Returns the logistic function in steps of 2^-15 of integers in steps of 2^-12. int64 in and out."""
    above = _raised(_reciprocal(_exponential(-np.abs(codes), 3)), 1)
    return np.where(codes == 0, 1 << (BITS - 1), np.where(codes < 0, HIGH - above, above))


def tanh(codes: Array, bits: int) -> Array:
    """Returns the hyperbolic tangent in steps of 2^-15 of integers in steps of 2^(bits - 15). int64 in and out. Raises ValueError
    for more than MOST_BITS integer bits, or fewer than 0."""
    if not 0 <= bits <= MOST_BITS:
        raise ValueError(f"{bits} integer bits, wanted 0 to {MOST_BITS}")
    below = _exponential(-np.abs(codes), bits + 1)
    made = _raised(_reciprocal(below) - (1 << (BITS - 2)), 2)
    return np.where(codes == 0, 0, np.where(codes < 0, -made, made))
