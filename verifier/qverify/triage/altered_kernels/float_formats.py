"""Narrow formats in which a kernel may keep a value, as functions of float64 arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Format = Callable[[Array], Array]
TINY32 = 2.0**-126  # the smallest normal float32


def exactly(values: Array) -> Array:
    """Returns the values unchanged."""
    return values


def float32(values: Array) -> Array:
    """Returns the values rounded to float32, in float64."""
    return np.asarray(values).astype(np.float32).astype(np.float64)


def float16(values: Array) -> Array:
    """Returns the values rounded to float16 (range and subnormals as well), in float64."""
    return np.asarray(values).astype(np.float16).astype(np.float64)


def significant(values: Array, bits: int, rule: Callable[[Array], Array] = np.rint) -> Array:
    """Returns the values rounded to so many significant bits, with unlimited range. rule: rounds to whole numbers."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    return np.ldexp(rule(mantissa * 2.0**bits), exponent - bits)


def bfloat16(values: Array) -> Array:
    """Returns the values rounded to float32 and then to bfloat16, in float64."""
    return significant(float32(values), 8)


def bfloat16_cut(values: Array) -> Array:
    """Returns the upper 16 bits of the float32, in float64."""
    return significant(float32(values), 8, np.trunc)


def split32(values: Array, bits: int) -> Array:
    """Returns c - (c - v) with c = v*(2^(24-bits)+1) in float32, which has so many significant bits; ties are rounded
    either way."""
    v = np.asarray(values).astype(np.float32)
    c = v * np.float32(2.0 ** (24 - bits) + 1)
    return (c - (c - v)).astype(np.float64)


def split64(values: Array, bits: int) -> Array:
    """Returns c - (c - v) with c = v*(2^(53-bits)+1) in float64, which has so many significant bits."""
    v = np.asarray(values, np.float64)
    c = v * (2.0 ** (53 - bits) + 1)
    return c - (c - v)


def flushed(values: Array) -> Array:
    """Returns the values with float32 subnormals replaced by 0 with their sign."""
    values = np.asarray(values, np.float64)
    return np.where(np.abs(values) < TINY32, np.copysign(0.0, values), values)


NARROW: dict[str, Format] = {
    "float16 (11 bits)": partial(significant, bits=11),
    "float16 (11 bits, by splitting)": partial(split64, bits=11),
    "float16 (11 bits, by splitting in float32)": partial(split32, bits=11),
    "float16 (11 bits, after float32)": lambda v: significant(float32(v), 11),
    "float16 with its range and subnormals": float16,
    "bfloat16": bfloat16,
    "bfloat16, cut off": bfloat16_cut,
    "bfloat16 (8 bits, not by float32)": partial(significant, bits=8),
    "bfloat16 (8 bits, by splitting)": partial(split64, bits=8),
    "bfloat16 (8 bits, by splitting in float32)": partial(split32, bits=8),
    "float16 (11 bits), cut off": partial(significant, bits=11, rule=np.trunc),
    "float32 less its lowest 13 bits, cut off": lambda v: significant(float32(v), 11, np.trunc),
}
WIDE: dict[str, Format] = {"float32": float32}
BITS: dict[str, Format] = {
    f"{bits} significant bits{', cut off' if cut else ''}": partial(
        significant, bits=bits, rule=np.trunc if cut else np.rint
    )
    for bits in (7, 9, 10, 12, 13, 14, 15, 16, 18, 20)
    for cut in (False, True)
}
FIXED: dict[str, Format] = {
    f"fixed point of {bits} fraction bits, {text}": partial(
        lambda v, bits, rule: rule(v * 2.0**bits) / 2.0**bits, bits=bits, rule=rule
    )
    for bits in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24)
    for text, rule in (
        ("rounded", np.rint),
        ("cut off", np.floor),
        ("truncated toward zero", np.trunc),
        ("rounded half up", lambda v: np.floor(v + 0.5)),
    )
}
FORMATS: dict[str, Format] = {**WIDE, **NARROW, **BITS}


def decimals(values: Array, count: int) -> Array:
    """Returns the values rounded to so many decimal places."""
    return np.asarray(np.round(values, count))


def of_largest(values: Array, most: float, rule: Callable[[Array], Array]) -> Array:
    """Returns the values as multiples of their largest absolute value divided by `most`, as some kernels store a
    tensor's parameters."""
    step = float(np.abs(values).max(initial=0.0)) / most
    return np.asarray(rule(values / step) * step if step else values)


DECIMAL: dict[str, Format] = {f"{count} decimal places": partial(decimals, count=count) for count in range(1, 8)}
LARGEST: dict[str, Format] = {
    f"multiples of the largest absolute value/{most:g}, {text}": partial(of_largest, most=most, rule=rule)
    for most in (127.0, 128.0, 255.0, 32767.0)
    for text, rule in (("rounded", np.rint), ("cut off", np.trunc))
}


def rarity(text: str) -> float:
    """Returns the additional bits of a format with this name, which is less likely than others with the same values."""
    return 2.0 * any(words in text for words in ("splitting", "after float32", "not by float32", "float32 less"))


def in_float32(values: Array, function: Callable[[Array], Array]) -> Array:
    """Returns function(values) computed from float32 values, so that all of its arithmetic is in float32."""
    return np.asarray(function(np.asarray(values).astype(np.float32))).astype(np.float64)
