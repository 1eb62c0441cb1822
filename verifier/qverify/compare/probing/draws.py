"""Draws operands of probes: fixed by words, so that equal words give equal probes on every host."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.tensors.one_op import Array, Operand

GENERAL, TIES, EDGES, NEAR = "general scales", "powers of two", "edges", "near ties"
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


def near_scale(random: np.random.Generator, ratio: float, most: int) -> float:
    """Returns a float32 scale of an output near `ratio`, of which many values are near ties: the sums that are an odd
    multiple of a small number. ratio: one sum in real values. most: limit of that number."""
    number = int(random.integers(3, most + 1)) | 1
    odd = 2 * int(random.integers(1, number)) + 1
    off = random.choice([0.0, 0.0, 2.0**-20, -(2.0**-20), 2.0**-14, -(2.0**-14), 2.0**-10, -(2.0**-10)])
    return float(np.float32(ratio * 2 * number / odd * (1 + off)))
