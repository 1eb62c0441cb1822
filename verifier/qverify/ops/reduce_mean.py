"""y = clip(requantize(sum (x-zx), sx/(sy*count)) + zy); float32: sequential float64 sum / count, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.linear import Requantization
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import read_requantization

Array = npt.NDArray[Any]
WORDS = ("axes_mask", "act_min", "act_max")


def prepare(node: Node, graph: Graph) -> Requantization | None:
    return None if graph.spec(node.inputs[0] or "").dtype == "float32" else read_requantization(node, graph)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Requantization | None) -> tuple[Array, ...]:
    x, spec, y = inputs[0], graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    assert x is not None
    axes = [i for i in range(x.ndim) if node.words[0] >> i & 1]
    count = int(np.prod([x.shape[i] for i in axes]))
    if state is not None:
        acc = x.sum(tuple(axes), dtype=np.int64, keepdims=True) - np.int64(spec.zero_point[0]) * count
        return (state.apply(np.atleast_1d(acc)).reshape(y.shape),)
    rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(
        *[n for i, n in enumerate(x.shape) if i not in axes], count
    )
    total = np.add.accumulate(rows.astype(np.float64), -1)[..., -1]
    return ((total / count).astype(np.float32).reshape(y.shape),)
