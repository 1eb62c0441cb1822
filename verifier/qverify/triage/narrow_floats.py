"""Values rounded or cut to fewer bits: float16, bfloat16, a number of significant bits, a number of binary places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def bfloat16(v: Array) -> Array:
    """Returns float32 values rounded to the nearest bfloat16, ties to even."""
    word = np.asarray(v, np.float32).view(np.uint32)
    rounded = (word + (0x7FFF + (word >> 16 & 1)).astype(np.uint32)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def bfloat16_cut(v: Array) -> Array:
    """Returns float32 values with their lower 16 bits cut off."""
    return (np.asarray(v, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def float16(v: Array) -> Array:
    """Returns values rounded to float16, as float32."""
    return np.asarray(v).astype(np.float16).astype(np.float32)


def significant(v: Array, count: int, rounded: Callable[[Array], Array] = np.rint) -> Array:
    """Returns float64 values with `count` significant bits, of any exponent."""
    m, e = np.frexp(np.asarray(v, np.float64))
    return np.asarray(np.ldexp(rounded(m * 2.0**count), e - count))


def places(v: Array, count: int, rounded: Callable[[Array], Array] = np.rint) -> Array:
    """Returns float64 values that are multiples of 2^-count."""
    return np.asarray(rounded(np.asarray(v, np.float64) * 2.0**count) * 2.0**-count)


def half_up(v: Array) -> Array:
    """Returns values rounded to the nearest integer, ties up."""
    return np.asarray(np.floor(np.asarray(v) + 0.5))


def half_away(v: Array) -> Array:
    """Returns values rounded to the nearest integer, ties away from zero."""
    return np.asarray(np.copysign(np.floor(np.abs(v) + 0.5), v))


def add_half_cut(v: Array) -> Array:
    """Returns values plus a half, cut toward zero: an integer too high below -0.5."""
    return np.asarray(np.trunc(np.asarray(v) + 0.5))


TO_INTEGER: dict[str, Callable[[Array], Array]] = {
    "rounded to the nearest (ties to even)": np.rint,
    "truncated toward zero": np.trunc,
    "rounded to the nearest (ties away from zero)": half_away,
    "rounded to the nearest (ties up)": half_up,
    "rounded down (floor)": np.floor,
    "rounded up (ceiling)": np.ceil,
    "rounded by adding 0.5 and truncating toward zero": add_half_cut,
}
NARROW: dict[str, Callable[[Array], Array]] = {
    "float16": float16,
    "bfloat16": bfloat16,
    "bfloat16 by truncation (upper 16 bits)": bfloat16_cut,
}
