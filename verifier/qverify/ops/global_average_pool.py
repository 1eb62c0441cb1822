"""y = clip(requantize(sum over the plane of (x-zx), S) + zy), S = fl32(sx / fl32(sy * fl32(H*W))); or a quotient of
integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.linear import Requantization
from qverify.arithmetic.requantize import divide_stored
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import read_requantization

Array = npt.NDArray[Any]
WORDS = ("act_min", "act_max")


def prepare(node: Node, graph: Graph) -> Requantization | None:
    rq = graph.constants[node.inputs[1] or ""]
    return None if rq.dtype == np.int32 and rq.ndim == 1 else read_requantization(node, graph)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Requantization | None) -> tuple[Array, ...]:
    x, spec, y = inputs[0], graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    assert x is not None
    axes = tuple(range(2, x.ndim))
    count = int(np.prod(x.shape[2:]))
    acc = x.sum(axes, dtype=np.int64, keepdims=True) - np.int64(spec.zero_point[0]) * count
    if state is not None:
        return (state.apply(acc).reshape(y.shape),)
    value = divide_stored(acc, graph.constants[node.inputs[1] or ""], count) + y.zero_point[0]
    return (np.clip(value, node.words[0], node.words[1]).astype(y.dtype).reshape(y.shape),)
