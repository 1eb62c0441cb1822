"""Computes the places along one axis at which LiteRT's kernels take the samples of a linear resize (RESIZE_BILINEAR;
verifier/qverify/ops/resize_linear.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.forms import PLACES, ROWS_FIRST, WEIGHTS_11, WEIGHTS_FIRST

Wholes = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
ONE = 1 << 10  # stands for a weight of 1 in the kernels with fixed point
NEAR = 2.0**-10  # largest distance, in elements, of places of the same mode in float32
MODES = ((False, False), (True, False), (False, True))  # (align_corners, half_pixel_centers)


def fixed_point(size: int, to: int, align: bool, half: bool) -> tuple[Wholes, Wholes, Wholes, Wholes]:
    """Returns the places of LiteRT's own kernels for int8: the indices of the two elements, among `size`, between which
    each output lies, and the weights of both, as parts of ONE. Each array has the shape [to]."""
    step = (ONE * size + to // 2) // to
    if align and to > 1:
        step = (ONE * (size - 1) + (to - 1) // 2) // (to - 1)
    place = np.arange(to, dtype=np.int64) * step + (step // 2 - ONE // 2 if half else 0)
    first = np.maximum(place, 0) // ONE
    second = np.clip((place + ONE - 1) // ONE, 0, size - 1)
    return first, second, ONE - (place - ONE * first), place - ONE * first


def exact(size: int, to: int, align: bool, half: bool) -> npt.NDArray[np.float64]:
    """Returns the places [to] without rounding, limited to the axis. They are those of XNNPACK, apart from its float32
    rounding."""
    index = np.arange(to, dtype=np.float64)
    step = (size - 1) / (to - 1) if align and to > 1 else size / to
    return np.clip((index + 0.5) * step - 0.5 if half else index * step, 0.0, size - 1.0)


def in_float32(size: int, to: int, align: bool, half: bool) -> tuple[Floats, Floats, Floats, Floats]:
    """Returns what fixed_point() does, with every step in float32, and weights 1 - d and d: LiteRT's own kernels for
    uint8."""
    one, half_pixel = np.float32(1), np.float32(0.5)
    step = np.float32(size - 1) / np.float32(to - 1) if align and to > 1 else np.float32(size) / np.float32(to)
    index = np.arange(to, dtype=np.float32)
    place = (index + half_pixel) * step - half_pixel if half else index * step
    first = np.maximum(np.floor(place), np.float32(0))
    second = np.minimum(np.ceil(place), np.float32(size - 1))
    return first, second, one - (place - first), place - first


WEIGHT_BITS = 11  # of XNNPACK's weights


def weights_of_11_bits(size: int, to: int, align: bool, half: bool) -> tuple[Wholes, Wholes, Wholes]:
    """Returns the indices of the two elements between which XNNPACK takes each output, and the weight of the second
    one, as parts of 2^11. Places are computed in float32."""
    less = int(align and to > 1)
    step, index = np.float32(size - less) / np.float32(to - less), np.arange(to, dtype=np.float32)
    offset = np.float32(0.5) * step - np.float32(0.5) if half else np.float32(0)
    place = np.clip(index * step + offset, np.float32(0), np.float32(size - 1))
    first = place.astype(np.int64)
    weight = np.rint((place - first.astype(np.float32)) * np.float32(1 << WEIGHT_BITS)).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), weight


def find_modes(index: Array, weight: Array, sizes: list[list[int]]) -> Iterator[tuple[bool, bool]]:
    """Yields the modes of LiteRT that have the node's places, in fixed point or in floats."""
    starts = np.cumsum([0, *(2 * to for _, to in sizes)])
    axes = [
        (size, to, (index[s : s + to], index[s + to : s + 2 * to], weight[s : s + to], weight[s + to : s + 2 * to]))
        for s, (size, to) in zip(starts, sizes, strict=False)
    ]
    for mode in MODES:
        if all(_is_mode(size, to, table, mode) for size, to, table in axes):
            yield mode


def _is_mode(size: int, to: int, table: tuple[Array, ...], mode: tuple[bool, bool]) -> bool:
    """Returns whether the node's table for one axis is that of the mode."""
    first, second, _, part = table
    if part.dtype.kind == "i":
        return all(map(np.array_equal, table, fixed_point(size, to, *mode)))
    place = first + np.where(first == second, 0.0, part.astype(np.float64) * (second - first))
    return np.allclose(place, exact(size, to, *mode), rtol=0.0, atol=NEAR)


def _weights_of_both(size: int, to: int, align: bool, half: bool) -> tuple[Wholes, ...]:
    first, second, weight = weights_of_11_bits(size, to, align, half)
    return first, second, (1 << WEIGHT_BITS) - weight, weight


METHODS: dict[
    str, tuple[Callable[..., tuple[Array, ...]], int, str]
] = {  # places, the word of resize_linear, and the type
    PLACES: (fixed_point, 2, "int32"),
    ROWS_FIRST: (in_float32, 3, "float32"),
    WEIGHTS_FIRST: (in_float32, 4, "float32"),
    WEIGHTS_11: (_weights_of_both, 5, "int32"),
}


def make_tables(method: str, sizes: list[list[int]], mode: tuple[bool, bool]) -> tuple[Array, Array, int]:
    """Returns the indices and weights of a resize_linear by a method, and its word. sizes: of rows and columns, before and
    after. Raises ValueError for places beyond the input: the kernel reads something else there."""
    places, word, dtype = METHODS[method]
    axes = [places(size, to, *mode) for size, to in sizes]
    for (first, *_), (size, to) in zip(axes, sizes, strict=True):
        if int(first.max()) >= size:
            raise ValueError(
                f"from {size} to {to} elements its kernel reads beyond its input (its step is rounded to 1/1024)"
            )
    index = np.concatenate([part for axis in axes for part in axis[:2]]).astype(np.int32)
    return index, np.concatenate([part for axis in axes for part in axis[2:]]).astype(dtype), word
