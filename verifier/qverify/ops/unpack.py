"""y[0,c,i,j] = the element at byte offset[c] + (i >> shift[c])*row[c] + (j >> shift[c])*column[c] of x,
little-endian."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("format", "offset[C]", "row[C]", "column[C]", "shift[C]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    if x.dtype != np.uint8 or x.ndim != 1 or len(y.shape) != 4 or y.shape[0] != 1:
        raise ValueError(f"{node.name}: wanted the bytes of a picture in, (1, C, H, W) out")
    _, channels, height, width = y.shape
    picture = np.empty(y.shape, y.numpy_dtype)
    for c in range(channels):
        offset, row, column, shift = (node.words[1 + k * channels + c] for k in range(4))
        if min(offset, row, column) < 0 or shift not in (0, 1):
            raise ValueError(f"{node.name}: channel {c} has a negative stride, or a shift other than 0 or 1")
        small = (-(-height >> shift), -(-width >> shift))
        last = offset + (small[0] - 1) * row + (small[1] - 1) * column + picture.itemsize
        if last > x.size:
            raise ValueError(f"{node.name}: channel {c} ends at byte {last} of {x.size}")
        plane = np.ndarray(small, y.numpy_dtype, np.ascontiguousarray(x), offset, (row, column))
        picture[0, c] = plane.repeat(1 + shift, 0).repeat(1 + shift, 1)[:height, :width] if shift else plane
    return (picture,)
