"""y = the part x0 y0 w h of x, resized bilinearly with 11-bit weights, relative to pixel centres. The part is an input
of every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()
ONE = 2048  # stands for a weight of 1


def samples(to: int, size: int) -> tuple[Array, Array, Array]:
    """Returns, for each of `to` outputs, its two neighbours among `size` pixels, and the weight of the second one as a
    part of ONE."""
    place = np.maximum((2 * np.arange(to, dtype=np.int64) + 1) * size * (ONE // 2) // to - ONE // 2, 0)
    first = place // ONE
    return first, np.minimum(first + 1, size - 1), place % ONE


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, part = inputs
    y = graph.spec(node.outputs[0])
    assert x is not None and part is not None
    left, top, width, height = (int(v) for v in part.reshape(4))
    if min(left, top) < 0 or min(width, height) < 1 or left + width > x.shape[3] or top + height > x.shape[2]:
        raise ValueError(f"{node.name}: roi {left},{top},{width},{height} is not within {x.shape[3]}x{x.shape[2]}")
    if x.dtype.itemsize != 1 or max(*x.shape[2:], *y.shape[2:]) > 1 << 15:
        raise ValueError(f"{node.name}: wanted 8 bits, and sides up to 32768")
    cut = x[:, :, top : top + height, left : left + width].astype(np.int64)
    up, down, fy = samples(y.shape[2], height)
    before, after, fx = samples(y.shape[3], width)
    above, below = ((ONE - fx) * cut[:, :, rows][..., before] + fx * cut[:, :, rows][..., after] for rows in (up, down))
    fy = fy[:, None]
    summed: Array = (ONE - fy) * above + fy * below + ONE * ONE // 2
    return ((summed >> 22).astype(x.dtype),)
