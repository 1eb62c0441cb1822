"""y = max of x over the valid taps; equal quantization on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import DILATION_WORDS, WINDOW_WORDS, Window, as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (*WINDOW_WORDS, *DILATION_WORDS)


def prepare(node: Node, graph: Graph) -> Window:
    return window_of(node.words)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Window) -> tuple[Array, ...]:
    y = graph.spec(node.outputs[0])
    assert inputs[0] is not None
    x, out = as_planes(inputs[0]), plane_shape(y.shape)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    best = np.full((*x.shape[:2], *out), lowest, x.dtype)
    for tap in state.reads(x, out, lowest):
        np.copyto(best, tap, where=(tap > best) | (tap != tap))  # of equal ones, as zeros of both signs are, the first
    return (best.reshape(y.shape),)
