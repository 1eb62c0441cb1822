"""y = max of x over the valid taps; equal quantization on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import Window, as_planes, plane_shape
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (
    "kernel_h",
    "kernel_w",
    "stride_h",
    "stride_w",
    "pad_top",
    "pad_left",
    "pad_bottom",
    "pad_right",
    "dilation_h",
    "dilation_w",
)


def prepare(node: Node, graph: Graph) -> Window:
    w = node.words
    return Window((w[0], w[1]), (w[2], w[3]), (w[4], w[5], w[6], w[7]), (w[8], w[9]))


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Window) -> tuple[Array, ...]:
    y = graph.spec(node.outputs[0])
    assert inputs[0] is not None
    x, out = as_planes(inputs[0]), plane_shape(y.shape)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    best = None
    for tap in state.taps(state.padded(x, out, lowest), out):
        best = tap.copy() if best is None else np.maximum(best, tap, out=best)
    assert best is not None
    return (best.reshape(y.shape),)
