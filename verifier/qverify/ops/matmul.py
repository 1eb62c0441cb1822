"""y = clip(requantize(sum (a-za)(b-zb), S) + zy): numpy's matmul broadcasting, quantized per last axis of b or per
tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.byte_products import ByteProduct, plan_byte_product, signed_bytes
from qverify.arithmetic.exact_matmul import (
    centred,
    centred_limits,
    exact_dtype,
    largest_partial_sum,
    narrow_type,
    widen,
)
from qverify.arithmetic.linear import Requantization, along_axis
from qverify.arithmetic.products import requantized_product
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import read_requantization
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
WORDS = ("act_min", "act_max")


def _zeros(spec: TensorSpec) -> Array:
    return along_axis(spec.zero_point, len(spec.shape), max(spec.channel_axis, 0))


def _centred(values: Array, spec: TensorSpec, dtype: Any) -> Array:
    return values.astype(dtype) - _zeros(spec).astype(dtype)


@dataclass(frozen=True, slots=True)
class PreparedMatMul:
    """The prepared constants of a matmul node.

    Attributes:
        dtype: type in which the sums are exact.
        constant: the constant b, centred or, with of_bytes, as int8; None if b is computed.
        requantization: the requantization of the sums.
        of_bytes: the product of the operands as they are stored, or None.
    """

    dtype: np.dtype[Any]
    constant: Array | None
    requantization: Requantization
    of_bytes: ByteProduct | None


def prepare(node: Node, graph: Graph) -> PreparedMatMul:
    a, b = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or "")
    requantization = read_requantization(node, graph, axis=-1)
    limits, is_constant = centred_limits(a.dtype, *a.zero_point), b.name in graph.constants
    if is_constant:
        stored = centred(graph.constants[b.name], _zeros(b), narrow_type(b.dtype))
        columns = np.moveaxis(stored, -2, -1) if stored.ndim > 1 else stored[None]
        dtype = exact_dtype(largest_partial_sum(limits, columns.reshape(-1, columns.shape[-1])))
    else:
        largest = [max(map(abs, of)) for of in (limits, centred_limits(b.dtype, *b.zero_point))]
        dtype = exact_dtype(a.shape[-1] * largest[0] * largest[1])
    sums, operands = prod(graph.spec(node.outputs[0]).shape), ((a.dtype, a.zero_point), (b.dtype, b.zero_point))
    of_bytes = plan_byte_product(*operands, (sums, a.shape[-1]), dtype)
    if not is_constant:
        return PreparedMatMul(dtype, None, requantization, of_bytes)
    if of_bytes:
        return PreparedMatMul(dtype, signed_bytes(graph.constants[b.name]), requantization, of_bytes)
    constant = widen(stored, dtype) if stored.ndim == 2 else stored.astype(dtype)
    return PreparedMatMul(dtype, constant, requantization, None)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: PreparedMatMul) -> tuple[Array, ...]:
    a, b, constant = inputs[0], inputs[1], state.constant
    assert a is not None and b is not None
    if state.of_bytes:
        operands = a, signed_bytes(b) if constant is None else constant
    else:
        centred_b = _centred(b, graph.spec(node.inputs[1] or ""), state.dtype) if constant is None else constant
        operands = _centred(a, graph.spec(node.inputs[0] or ""), state.dtype), centred_b
    shape = graph.spec(node.outputs[0]).shape
    return (requantized_product(*operands, state.requantization, shape, of_bytes=state.of_bytes),)
