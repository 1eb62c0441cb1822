"""y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): x [M,K], w [N,K]."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import centred, narrow_type, widen
from qverify.arithmetic.linear import Requantization, along_axis
from qverify.arithmetic.products import requantized_product
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import choose_exact_dtype, read_requantization, whole_bias

Array = npt.NDArray[Any]
WORDS = ("act_min", "act_max")


def prepare(node: Node, graph: Graph) -> tuple[Any, Array, Array | None, Requantization]:
    w = graph.spec(node.inputs[1] or "")
    zeros = along_axis(w.zero_point, 2, max(w.channel_axis, 0))
    stored, bias = centred(graph.constants[w.name], zeros, narrow_type(w.dtype)), whole_bias(node, graph)
    dtype = choose_exact_dtype(node, graph, stored, bias)
    weight = widen(stored, dtype).T
    return dtype, weight, None if bias is None else bias.astype(dtype), read_requantization(node, graph, axis=-1)


def simulate(
    node: Node, inputs: list[Array | None], graph: Graph, state: tuple[Any, Array, Array | None, Requantization]
) -> tuple[Array, ...]:
    dtype, weight, bias, requantization = state
    assert inputs[0] is not None
    x = np.subtract(inputs[0], graph.spec(node.inputs[0] or "").zero_point[0], dtype=dtype, casting="unsafe")
    return (requantized_product(x, weight, requantization, graph.spec(node.outputs[0]).shape, bias),)
