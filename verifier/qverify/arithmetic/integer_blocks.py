"""Rows in blocks that are rounded to int8 by their largest magnitude, and their products with weights in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LIMIT = np.float32(127)
SMALLEST = LIMIT / np.finfo(np.float32).max  # the least float32 by which 127 can be divided


def scaled_blocks(x: Array, shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Returns x in blocks, the last of a row filled with 0, and for each block its largest magnitude, and the steps in 1.

    shape: (..., blocks, elements of a block)."""
    filled = np.zeros((*shape[:-2], shape[-2] * shape[-1]), np.float32)
    filled[..., : x.shape[-1]] = x
    blocks = filled.reshape(shape)
    sizes = np.abs(blocks)
    sizes[np.isnan(sizes)] = 0  # np.fmax would return a signalling NaN
    largest = sizes.max(-1, keepdims=True, initial=np.float32(0))
    return blocks, largest, LIMIT / np.maximum(largest, SMALLEST)


def block_products(inputs: Sequence[Array | None], magnitudes: bool = False) -> Iterator[tuple[Array, Array]]:
    """Yields for each block the integer sums (rows, N) and the products of both scales (rows, N) or broadcastable to
    it, in float64. magnitudes: yields an upper bound of the sums of the terms' magnitudes instead, in any kernel that
    multiplies before it subtracts the zero points."""
    q, s, w, sw, zw = inputs[:5]
    assert q is not None and s is not None and w is not None and sw is not None and zw is not None
    count, length = w.shape[1:]
    rows = q.reshape(-1, count, length).astype(np.float32)  # every partial sum of a block is below 2^24
    scales = s.reshape(-1, count).astype(np.float64)
    for at in range(count):
        weights, zeros = w[:, at].astype(np.float32), zw[:, at, None].astype(np.float32)
        left, right = (np.abs(rows[:, at]), weights + zeros) if magnitudes else (rows[:, at], weights - zeros)
        yield (left @ right.T).astype(np.float64), scales[:, at, None] * sw[:, at].astype(np.float64)
