"""y = clip(RNE(fl32(fl32(fl32((A-za)(B-zb))*R) + zy))) in ref-exact; requantize((A-za)(B-zb), S) + zy otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.pairs import FloatSteps
from qverify.arithmetic.requantize import requantize
from qverify.model_bin.graph import Graph, Node
from qverify.ops.add import FEW, compute_pairs, make_table

Array = npt.NDArray[Any]
WORDS = ("act_min", "act_max")


def prepare(node: Node, graph: Graph) -> Array | FloatSteps | None:
    a, b, y = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or ""), graph.spec(node.outputs[0])
    rq, narrow = graph.constants[node.inputs[2] or ""], a.numpy_dtype.itemsize == b.numpy_dtype.itemsize == 1
    if y.elements > FEW and narrow and rq.dtype == np.float32 and rq.ndim == 1 and np.isfinite(rq[0]):
        low, high = node.words
        zeros = (np.float32(-a.zero_point[0]), np.float32(-b.zero_point[0]))
        return FloatSteps(np.multiply, (1, 1), zeros, rq[0], np.float32(y.zero_point[0]), low, high)
    return make_table(formula, node, graph)


def formula(node: Node, graph: Graph, first: Array, second: Array) -> Array:
    a, b, y = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or ""), graph.spec(node.outputs[0])
    low, high = node.words
    rq, zero = graph.constants[node.inputs[2] or ""], y.zero_point[0]
    acc = (first.astype(np.int64) - a.zero_point[0]) * (second.astype(np.int64) - b.zero_point[0])
    if rq.dtype == np.float32 and rq.ndim == 1:
        value = acc.astype(np.float32) * rq[0] + np.float32(zero)
        return np.clip(np.rint(value), low, high).astype(y.dtype)
    return requantize(acc, rq, zero, low, high, y.dtype, graph.rounding, is_wide(a.dtype, b.dtype, y.dtype))


def simulate(
    node: Node, inputs: list[Array | None], graph: Graph, state: Array | FloatSteps | None
) -> tuple[Array, ...]:
    return (compute_pairs(formula, node, inputs, graph, state),)
