"""y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): x [M,K], w [N,K]."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.byte_products import ByteProduct, plan_byte_product, signed_bytes
from qverify.arithmetic.exact_matmul import centred, narrow_type, widen
from qverify.arithmetic.linear import Requantization, along_axis
from qverify.arithmetic.products import requantized_product
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import choose_exact_dtype, read_requantization, whole_bias

Array = npt.NDArray[Any]
WORDS = ("act_min", "act_max")


@dataclass(frozen=True, slots=True)
class PreparedFullyConnected:
    """The prepared constants of a fully_connected node.

    Attributes:
        dtype: type in which the sums are exact.
        weight: [K, N], centred or, with of_bytes, as int8.
        bias: [N], or None.
        requantization: the requantization of the sums.
        of_bytes: the product of the operands as they are stored, or None.
    """

    dtype: np.dtype[Any]
    weight: Array
    bias: Array | None
    requantization: Requantization
    of_bytes: ByteProduct | None


def prepare(node: Node, graph: Graph) -> PreparedFullyConnected:
    x, w = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or "")
    zeros = along_axis(w.zero_point, 2, max(w.channel_axis, 0))
    stored, bias = centred(graph.constants[w.name], zeros, narrow_type(w.dtype)), whole_bias(node, graph, w.shape[0])
    dtype = choose_exact_dtype(node, graph, stored, bias)
    sums, operands = prod(graph.spec(node.outputs[0]).shape), ((x.dtype, x.zero_point), (w.dtype, w.zero_point))
    of_bytes = plan_byte_product(*operands, (sums, w.shape[1]), dtype, bias)
    weight = signed_bytes(graph.constants[w.name]) if of_bytes else widen(stored, dtype)
    requantization = read_requantization(node, graph, axis=-1)
    return PreparedFullyConnected(
        dtype, weight.T, None if bias is None else bias.astype(dtype), requantization, of_bytes
    )


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: PreparedFullyConnected) -> tuple[Array, ...]:
    x, shape = inputs[0], graph.spec(node.outputs[0]).shape
    assert x is not None
    if not state.of_bytes:
        x = np.subtract(x, graph.spec(node.inputs[0] or "").zero_point[0], dtype=state.dtype, casting="unsafe")
    return (requantized_product(x, state.weight, state.requantization, shape, state.bias, state.of_bytes),)
