"""Draws operands of probes: fixed by words, so that equal words give equal probes on every host."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.tensors.one_op import Array, Operand

GENERAL, TIES, EDGES, NEAR = "general scales", "powers of two", "edges", "near ties"
EXACT = "exact ties"  # of scales that are no powers of two
CLIPPED = 384  # steps of the output beyond which every value of 8 bits is clipped
SIGMA = 74.0  # of uniform 8-bit integers


def random_of(*words: object) -> np.random.Generator:
    """Returns the random numbers of these words."""
    digest = hashlib.sha256("\0".join(map(str, words)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))


def power_of_two(value: Any) -> Any:
    """Returns the nearest power of two."""
    return functions64.exp2(np.rint(functions64.log2(value)))


def draw_zero(random: np.random.Generator, dtype: str, kind: str) -> int:
    """Returns a zero point near the middle: very near for powers of two, odd or even."""
    reach = 3 if kind == TIES else 24
    return (128 if dtype == "uint8" else 0) + int(random.integers(-reach, reach + 1))


def draw_scale(random: np.random.Generator, low: float, high: float, kind: str) -> Array:
    """Returns a float32 scale between these limits; a power of two for that kind."""
    value = functions64.exp(random.uniform(functions64.log(low), functions64.log(high)))
    return np.asarray(power_of_two(value) if kind == TIES else value, np.float32)


def draw_codes(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Returns integers over the whole range, the first and last of which are its ends."""
    limits = np.iinfo(dtype)
    codes = random.integers(limits.min, limits.max + 1, shape)
    codes.reshape(-1)[[0, -1]] = limits.min, limits.max
    return codes.astype(dtype)


def draw_operand(
    random: np.random.Generator, shape: tuple[int, ...], dtype: str, kind: str, low: float = 0.01, high: float = 0.08
) -> Operand:
    """Returns an operand of random integers with a scale between these limits."""
    scale, zero = draw_scale(random, low, high, kind), draw_zero(random, dtype, kind)
    return Operand(draw_codes(random, shape, dtype), scale, zero)


def all_codes(dtype: str, shape: tuple[int, ...]) -> Array:
    """Returns every integer of the type in order, repeated to fill the shape."""
    limits = np.iinfo(dtype)
    size = int(np.prod(shape))
    return (np.arange(size) % 256 + limits.min).astype(dtype).reshape(shape)


def tied_scales(
    random: np.random.Generator, scale: float, most: int, larger: float = 1.0, counts: Sequence[int] = (1,)
) -> tuple[Array, float]:
    """Returns float32 scales x near `scale`, and y near `larger` times that, of which odd multiples of a small number are
    exact ties, in float64, too: x / y is odd / (2 * number) times a power of two. most: limit of that number, 3 or more.
    counts: of elements by which sums are divided."""
    pairs = [(odd, n) for n in range(3, most + 1, 2) for odd in range(n - 2, 2 * n, 2) if np.gcd(odd, n) == 1]
    usable = [p for p in pairs if all(has_ties(p[0], 2 * p[1] * count) for count in counts)] or pairs
    odd, number = usable[int(random.integers(len(usable)))]
    unit = _few_bits(random, scale / odd)
    by = max(1.0, power_of_two(larger * odd / (2 * number)))
    return np.asarray(odd * unit, np.float32), float(np.float32(2 * number * unit * by))


def has_ties(up: int, down: int) -> bool:
    """Returns whether the float64 nearest to up / down gives every tie of 8 bits that the quotient gives."""
    ratio = Fraction(up, down)
    half = ratio.denominator // 2  # odd multiples of it are ties
    sums = half * np.arange(1, max(2, int(CLIPPED / (half * ratio))), 2)
    steps = sums * float(ratio)
    return bool((steps - np.floor(steps) == 0.5).all())


def _few_bits(random: np.random.Generator, value: float) -> float:
    """Returns a value near this one with an odd mantissa of 6 bits, so that its products with small numbers are exact."""
    return float((random.integers(16, 32) * 2 + 1) * functions64.exp2(np.floor(functions64.log2(value)) - 5))


def near_scale(random: np.random.Generator, ratio: float, most: int) -> float:
    """Returns a float32 scale of an output near `ratio`, of which many values are near ties, and none at one: the sums that
    are an odd multiple of a small number. ratio: one sum in real values. most: limit of that number."""
    number = int(random.integers(3, most + 1)) | 1
    odd = 2 * int(random.integers(1, number)) + 1
    off = random.choice([0.0, 0.0, 2.0**-20, -(2.0**-20), 2.0**-14, -(2.0**-14), 2.0**-10, -(2.0**-10)])
    scale = np.float32(ratio * 2 * number / odd * (1 + off))
    if Fraction(float(scale)) * odd == Fraction(ratio) * 2 * number:  # exact ties, which float64 may miss
        scale = np.nextafter(scale, np.float32(1))
    return float(scale)
