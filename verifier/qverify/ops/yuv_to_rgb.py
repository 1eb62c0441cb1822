"""y_c = clip((sum_k m[c][k]*d_k + 2^(shift-1)) >> shift, 0, 255), d_k = x_k - offset_k, d_0 at least `floor`."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from qverify.arithmetic.colour import convert_yuv
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("shift", "floor", "offset0", "offset1", "offset2", *(f"m{c}{k}" for c in range(3) for k in range(3)))


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    if x.ndim != 4 or x.shape[1] != 3 or x.dtype.itemsize != 1:
        raise ValueError(f"{node.name}: wanted (N, 3, H, W) of 8 bits")
    return (convert_yuv(x, node.words),)
