"""Sums of rows as faulty kernels compute them: with parts left out or counted twice, in narrow accumulators, or in
other orders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import sequential_sum
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import NARROW, Format, exactly, float32

Array = npt.NDArray[Any]
WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256)
TAIL = re.compile(r"the last [0-9]+ elements \(depth mod .*\) left out|the (last|first) 1 element left out|in float32")
MAX_STEPS = 4096  # elements of a row; longer rows are not summed one by one in a format that numpy lacks


@dataclass(frozen=True, slots=True)
class RowSum:
    """A way to compute the sum of a row.

    Attributes:
        text: the way in words.
        total: sums the last axis of float64 values.
        size: returns the number of elements that are added in a row of this length.
        bits: bits of choice; fewer for a more likely way.
    """

    text: str
    total: Callable[[Array], Array]
    size: Callable[[int], float]
    bits: float = 9.0


def whole(values: Array) -> Array:
    """Returns the sum over the last axis, added from left to right in the dtype of the values."""
    if values.shape[-1] * 16 > values.size:
        return np.add.accumulate(values, -1, dtype=values.dtype)[..., -1]
    return sequential_sum(values, -1)[..., 0]


def partial_sums(depth: int) -> list[RowSum]:
    """Returns the different sums of only a part of a row of this length, the likely ones first. Parts that are empty or
    the whole row are left out."""
    masks = dict[bytes, tuple[Array, list[str]]]()
    for text, mask in _masks(depth):
        if mask.any() and not (mask == 1).all():
            masks.setdefault(mask.tobytes(), (mask, []))[1].append(text)
    return [
        RowSum(
            " or, which is the same here, ".join(alike[: 1 if TAIL.fullmatch(alike[0]) else 2]),
            partial(_weighted, weights=mask),
            bind_last(lambda _, mask: float(mask.sum()), mask),
            5.0 if TAIL.fullmatch(alike[0]) else 9.0,
        )
        for mask, alike in masks.values()
    ]


def _weighted(values: Array, weights: Array) -> Array:
    """Returns the sum in which each element counts as often as its weight (0, 1 or 2)."""
    if (weights <= 1).all():
        return whole(values[..., weights == 1])
    return whole(values) + whole(values[..., weights == 2])


def _masks(depth: int) -> Iterator[tuple[str, Array]]:
    at = np.arange(depth)
    rests = dict[int, list[int]]()
    for n in WIDTHS:
        if depth % n and depth > n:
            rests.setdefault(depth % n, []).append(n)
    for rest, widths in rests.items():
        yield (
            f"the last {rest} elements (depth mod {' or '.join(map(str, widths))}) left out",
            (at < depth - rest) * 1.0,
        )
    for k in (1, 2, 3, 4, 8, 16):
        yield f"the last {k} element{'s' * (k > 1)} left out", (at < depth - k) * 1.0
        yield f"the first {k} element{'s' * (k > 1)} left out", (at >= k) * 1.0
    yield "the first element counted twice", 1.0 + (at == 0)
    yield "the last element counted twice", 1.0 + (at == depth - 1)
    yield "its first half only", (at < depth // 2) * 1.0
    yield "its second half only", (at >= depth // 2) * 1.0
    for n in (1, *WIDTHS):
        yield f"every second group of {n} elements left out", (at // n % 2 == 0) * 1.0
        yield f"every second group of {n} elements only, from the second", (at // n % 2) * 1.0
    for n in (1, *WIDTHS):
        yield f"the first {n} elements only", (at < n) * 1.0
        yield f"the last {n} elements only", (at >= depth - n) * 1.0
    for n in WIDTHS:
        rest = depth % n
        if rest and depth > n:
            overlapping = 1.0 + ((at >= depth - n) & (at < depth - rest))
            yield f"the last vector of {n} overlaps the one before, its elements counted twice", overlapping
            yield f"the last {rest} elements (depth mod {n}) counted twice", 1.0 + (at >= depth - rest)
            yield f"of the last {rest} elements (depth mod {n}) only the first", (at <= depth - rest) * 1.0
            yield f"only the last {rest} elements (depth mod {n})", (at >= depth - rest) * 1.0
        yield f"one of {n} elements only", (at % n == 0) * 1.0
        if depth > n:
            yield f"the last of {n} elements each left out", (at % n != n - 1) * 1.0
            yield f"the first of {n} elements each left out", (at % n != 0) * 1.0
            yield f"the last vector of {n} left out", (at < (depth - 1) // n * n) * 1.0


def narrow_sums(depth: int, wider: bool = True) -> Iterator[RowSum]:
    """Yields sums of all elements in narrower accumulators and in other orders. wider: whether the healthy sum is
    computed in float64, so that a sum in float32 is a fault, too."""
    size = float
    if wider:
        yield RowSum("in float32", lambda v: whole(v.astype(np.float32)).astype(np.float64), size, 5.0)
    for lanes in (2, 4, 8, 16, 32, 64):
        if depth > lanes:
            yield RowSum(f"in float32 in {lanes} partial sums", partial(_lanes, lanes=lanes, tree=False), size)
            yield RowSum(
                f"in float32 in {lanes} partial sums added in pairs", partial(_lanes, lanes=lanes, tree=True), size
            )
    yield RowSum(
        "in float32 from the last element", lambda v: whole(v[..., ::-1].astype(np.float32)).astype(np.float64), size
    )
    yield RowSum("in float32 in pairs (a tree)", _tree, size)
    if not wider:
        yield RowSum("in float64", lambda v: whole(v.astype(np.float64)), size)
    yield RowSum(
        "in float16, the elements rounded before", lambda v: whole(v.astype(np.float16)).astype(np.float64), size
    )
    if depth > MAX_STEPS:
        return
    for name, narrow in NARROW.items():
        yield RowSum(f"in {name}, every partial sum rounded", partial(_stepwise, narrow=narrow), size)
        yield RowSum(
            f"in {name}, elements and partial sums rounded", partial(_stepwise, narrow=narrow, before=narrow), size
        )
        yield RowSum(
            f"in {name}, every partial sum but the first rounded",
            partial(_stepwise, narrow=narrow, from_first=True),
            size,
        )
        yield RowSum(
            f"in {name}, every partial sum rounded, to float32 first",
            partial(_stepwise, narrow=narrow, single=True, from_first=True),
            size,
        )
        yield RowSum(f"of elements rounded to {name}", partial(_rounded, narrow=narrow), size)
        yield RowSum(f"rounded to {name}", partial(_ended, narrow=narrow), size)


def _stepwise(
    values: Array, narrow: Format, before: Format = exactly, from_first: bool = False, single: bool = False
) -> Array:
    values = before(values)
    total = values[..., 0] if from_first else narrow(values[..., 0])
    for i in range(1, values.shape[-1]):
        total = total + values[..., i]
        total = narrow(float32(total) if single else total)
    return total


def _rounded(values: Array, narrow: Format) -> Array:
    return whole(narrow(values).astype(values.dtype))


def _ended(values: Array, narrow: Format) -> Array:
    return narrow(whole(values))


def _lanes(values: Array, lanes: int, tree: bool) -> Array:
    values = values.astype(np.float32)
    padded = np.zeros((*values.shape[:-1], -(-values.shape[-1] // lanes) * lanes), np.float32)
    padded[..., : values.shape[-1]] = values
    sums = whole(np.moveaxis(padded.reshape(*values.shape[:-1], -1, lanes), -2, -1))
    return _tree(sums) if tree else whole(sums).astype(np.float64)


def _tree(values: Array) -> Array:
    """Returns the sum in float32, computed by adding the second half of the values to the first until one is left."""
    values = values.astype(np.float32)
    while values.shape[-1] > 1:
        half = -(-values.shape[-1] // 2)
        upper = np.zeros((*values.shape[:-1], half), np.float32)
        upper[..., : values.shape[-1] - half] = values[..., half:]
        values = values[..., :half] + upper
    return values[..., 0].astype(np.float64)


def divisors(depth: int) -> dict[str, float]:
    """Returns wrong divisors for a mean of so many elements, by text."""
    others = {
        "depth - 1": depth - 1,
        "the power of two below (a shift by the depth's highest bit)": 2 ** int(functions64.log2(depth)),
        "the next power of two (a shift)": 2 ** int(np.ceil(functions64.log2(depth))),
        "depth + 1": depth + 1,
        "depth / 2": depth / 2,
        "2 * depth": 2 * depth,
    }
    for n in WIDTHS[1:]:
        others[f"depth rounded up to a multiple of {n}"] = -(-depth // n) * n
        others[f"depth rounded down to a multiple of {n}"] = depth // n * n
        others[f"{n}"] = n
        if depth % n == 0:
            others[f"the next multiple of {n} above the depth, {n} more where it is a multiple already"] = depth + n
    return {text: float(value) for text, value in others.items() if value > 0 and value != depth}


def reciprocal_divisors(depth: int) -> dict[str, float]:
    """Returns the divisors that are equivalent to a multiplication by a rounded 1/depth, by text; each number once, the
    likely ones first."""
    texts = dict[float, str]()
    for bits in (12, 16, 8, 15, 10, 14, 24, 20, 11, 13, 18, 23, 30, 31, 9, 7, 6):
        for text, rule in (("rounded", np.rint), ("cut off", np.floor), ("rounded up", np.ceil)):
            part = float(rule(2.0**bits / depth)) / 2.0**bits
            texts.setdefault(part, f"1/depth as a multiple of 2^-{bits} = 1/{2**bits}, {text}")
    for text, narrow in {"float32": float32, **NARROW}.items():
        texts.setdefault(float(narrow(np.array(1.0 / depth))), f"1/depth rounded to {text}")
    for count in range(2, 13):
        texts.setdefault(round(1.0 / depth, count), f"1/depth as a decimal of {count} places")
    return {text: 1.0 / part for part, text in texts.items() if part and part != 1.0 / depth}


def sums_on(values: Array) -> Array:
    """Returns the sums of rows, [rows, 1], each of which starts from the sum of the row before."""
    depth = values.shape[1]
    return np.add.accumulate(values.reshape(-1))[depth - 1 :: depth][:, None]
