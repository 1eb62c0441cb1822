"""y = clip(requantize(sum (a-za)(b-zb), S) + zy): numpy's matmul broadcasting, quantized per last axis of b or per
tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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


def prepare(node: Node, graph: Graph) -> tuple[Any, Array | None, Requantization]:
    a, b = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or "")
    limits, constant = centred_limits(a.dtype, *a.zero_point), None
    if b.name in graph.constants:
        stored = centred(graph.constants[b.name], _zeros(b), narrow_type(b.dtype))
        columns = np.moveaxis(stored, -2, -1) if stored.ndim > 1 else stored[None]
        dtype = exact_dtype(largest_partial_sum(limits, columns.reshape(-1, columns.shape[-1])))
        constant = widen(stored, dtype) if stored.ndim == 2 else stored.astype(dtype)
    else:
        largest = [max(map(abs, of)) for of in (limits, centred_limits(b.dtype, *b.zero_point))]
        dtype = exact_dtype(a.shape[-1] * largest[0] * largest[1])
    return dtype, constant, read_requantization(node, graph, axis=-1)


def simulate(
    node: Node, inputs: list[Array | None], graph: Graph, state: tuple[Any, Array | None, Requantization]
) -> tuple[Array, ...]:
    dtype, constant, requantization = state
    assert inputs[0] is not None and inputs[1] is not None
    a = _centred(inputs[0], graph.spec(node.inputs[0] or ""), dtype)
    b = _centred(inputs[1], graph.spec(node.inputs[1] or ""), dtype) if constant is None else constant
    return (requantized_product(a, b, requantization, graph.spec(node.outputs[0]).shape),)
