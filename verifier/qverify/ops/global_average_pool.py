"""y = clip(requantize(sum over the plane of (x-zx), S) + zy), S = fl32(sx / fl32(sy * fl32(H*W)))."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.linear import Requantization
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import read_requantization

Array = npt.NDArray[Any]
WORDS = ("act_min", "act_max")


def prepare(node: Node, graph: Graph) -> Requantization:
    return read_requantization(node, graph)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Requantization) -> tuple[Array, ...]:
    x, spec = inputs[0], graph.spec(node.inputs[0] or "")
    assert x is not None
    axes = tuple(range(2, x.ndim))
    count = int(np.prod(x.shape[2:]))
    acc = x.sum(axes, dtype=np.int64, keepdims=True) - np.int64(spec.zero_point[0]) * count
    return (state.apply(acc).reshape(graph.spec(node.outputs[0]).shape),)
