"""Functions that keep intermediate results in fewer bits, and rules that round them to whole numbers. Results in a
format are float32, those with a number of bits float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qverify.triage.altered_kernels import narrow_floats
from qverify.triage.altered_kernels.narrow_floats import Array, Narrow


def float16(values: Array) -> Array:
    """Returns values rounded to float16, as float32."""
    return narrow_floats.float16(np.asarray(values, np.float32))


def bfloat16(values: Array) -> Array:
    """Returns values rounded to the nearest bfloat16, ties to even, as float32."""
    return narrow_floats.bfloat16(np.asarray(values, np.float32))


def bfloat16_cut(values: Array) -> Array:
    """Returns float32 values with their lower 16 bits cut off."""
    return narrow_floats.bfloat16_cut(np.asarray(values, np.float32))


def significant(values: Array, count: int, rounded: Narrow = np.rint) -> Array:
    """Returns values rounded to `count` significant bits, as float64."""
    return narrow_floats.significant(np.asarray(values, np.float64), count, rounded)


def places(values: Array, count: int, rounded: Narrow = np.rint) -> Array:
    """Returns values rounded to multiples of 2^-count, as float64."""
    return narrow_floats.fixed(np.asarray(values, np.float64), count, rounded)


def half_up(values: Array) -> Array:
    """Returns values rounded to the nearest integer, ties up."""
    return np.asarray(np.floor(np.asarray(values) + 0.5))


def half_away(values: Array) -> Array:
    """Returns values rounded to the nearest integer, ties away from zero."""
    return np.asarray(np.copysign(np.floor(np.abs(values) + 0.5), values))


def add_half_cut(values: Array) -> Array:
    """Returns values plus a half, truncated toward zero, which is one too high below -0.5."""
    return np.asarray(np.trunc(np.asarray(values) + 0.5))


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
