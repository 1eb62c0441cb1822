"""y = fl32(sequential float64 sum of the valid taps / count)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import (
    DILATION_WORDS,
    WINDOW_WORDS,
    Window,
    as_planes,
    plane_shape,
    taps_counted,
    window_of,
)
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (*WINDOW_WORDS, *DILATION_WORDS, "count_include_pad")


def prepare(node: Node, graph: Graph) -> Window:
    return window_of(node.words)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Window) -> tuple[Array, ...]:
    assert inputs[0] is not None
    x, y = as_planes(inputs[0]), graph.spec(node.outputs[0])
    out = plane_shape(y.shape)
    count = taps_counted(state, plane_shape(x.shape), out, bool(node.words[10]))
    total = np.zeros((*x.shape[:2], *out))
    with np.errstate(all="ignore"):
        for tap in state.reads(x.astype(np.float64), out, 0.0):
            total += tap
        return ((total / np.maximum(count, 1)).astype(np.float32).reshape(y.shape),)
