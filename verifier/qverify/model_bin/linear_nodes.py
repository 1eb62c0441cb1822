"""Reads from the node of a linear op what all of these ops need: the bias, the exact type of its sums, its
requantization."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import (
    ExactSumPlan,
    centred_limits,
    exact_dtype,
    largest_partial_sum,
    plan_exact_sums,
)
from qverify.arithmetic.linear import Requantization, is_wide
from qverify.arithmetic.requantize import steps_of
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]


def whole_bias(node: Node, graph: Graph, outputs: int) -> Array | None:
    """Returns the bias that is a term of the sum, [outputs], or None if it is absent or float32. Raises ValueError for
    another shape."""
    bias = None if node.inputs[2] is None else graph.constants[node.inputs[2]]
    if bias is None or bias.dtype.kind == "f":
        return None
    if bias.shape != (outputs,):
        raise ValueError(f"a bias {list(bias.shape)} for {outputs} output channels")
    return bias


def read_requantization(node: Node, graph: Graph, axis: int = 1) -> Requantization:
    """Returns the node's requantization. Its last input is rq, its last words are act_min and act_max. A float32 output
    has no zero point, and may have a float32 bias as the input before rq. axis: axis of rq's channels in the
    accumulator."""
    y = graph.spec(node.outputs[0])
    low, high = node.words[-2:]
    wide = is_wide(*(graph.spec(n).dtype for n in node.inputs[:2] if n is not None), y.dtype)
    rq = graph.constants[node.inputs[-1] or ""]
    if rq.dtype == np.int32:
        rq = steps_of(rq, graph.rounding, wide)
    zero = y.zero_point[0] if y.zero_point else 0
    bias = graph.constants.get(node.inputs[2] or "") if len(node.inputs) == 4 and y.dtype == "float32" else None
    real = None if bias is None or bias.dtype.kind != "f" else bias
    return Requantization(rq, zero, low, high, y.dtype, graph.rounding, wide, axis, real)


def choose_exact_dtype(node: Node, graph: Graph, weights: Array, bias: Array | None) -> np.dtype[Any]:
    """Returns the fastest type in which every sum is exact. weights: centred, [outputs, terms]."""
    x = graph.spec(node.inputs[0] or "")
    return exact_dtype(largest_partial_sum(centred_limits(x.dtype, *x.zero_point), weights, bias))


def plan_node_sums(node: Node, graph: Graph, weights: Array, bias: Array | None) -> ExactSumPlan:
    """Returns the fastest plan by which all sums are exact. weights: centred, [outputs, terms]."""
    x = graph.spec(node.inputs[0] or "")
    return plan_exact_sums(centred_limits(x.dtype, *x.zero_point), weights, bias)
