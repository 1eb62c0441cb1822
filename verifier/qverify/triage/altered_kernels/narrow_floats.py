"""Functions that keep floats in fewer bits (float16, bfloat16, fewer significant bits, fixed point) and return them in
their own dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Narrow = Callable[[Array], Array]


def float16(values: Array) -> Array:
    """Returns the values rounded to IEEE binary16, in their own dtype."""
    return values.astype(np.float16).astype(values.dtype)


def bfloat16(values: Array) -> Array:
    """Returns the values rounded to bfloat16, ties to even, in their own dtype."""
    field = np.ascontiguousarray(values, np.float32).view(np.uint32)
    upper = (field + 0x7FFF + (field >> 16 & 1)) & np.uint32(0xFFFF0000)
    return upper.view(np.float32).astype(values.dtype)


def bfloat16_cut(values: Array) -> Array:
    """Returns the values with only the upper 16 bits of their float32, in their own dtype."""
    field = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return field.view(np.float32).astype(values.dtype)


def float32(values: Array) -> Array:
    """Returns the values rounded to float32, in their own dtype."""
    return values.astype(np.float32).astype(values.dtype)


def significant(values: Array, bits: int, rounded: Narrow = np.rint) -> Array:
    """Returns the values rounded by a rule to so many significant bits, in their own dtype."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(rounded(fraction * 2.0**bits), exponent - bits).astype(values.dtype)


def fixed(values: Array, bits: int, rounded: Narrow = np.rint) -> Array:
    """Returns the values rounded by a rule to multiples of 2^-bits, in their own dtype."""
    return (rounded(values.astype(np.float64) * 2.0**bits) * 2.0**-bits).astype(values.dtype)


FORMATS: dict[str, Narrow] = {
    "float16 (11 significant bits)": float16,
    "bfloat16 (8 significant bits)": bfloat16,
    "bfloat16 (8 significant bits, the others cut off)": bfloat16_cut,
    "float32 (24 significant bits)": float32,
}
