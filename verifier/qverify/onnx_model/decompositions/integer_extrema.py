"""Writes Min and Max of one integer tensor as a copy, and of three or more as one operator for each pair."""

from __future__ import annotations

import onnx

from qverify.onnx_model.decompositions.narrow_integers import in_int32
from qverify.onnx_model.light_model import INTEGERS
from qverify.onnx_model.rewriter import Rewriter


def extrema_of_pairs(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Compares the first two inputs, then the result with each further one. Two are compared in int32 if they have 16 bits."""
    if len(node.input) == 2:
        return in_int32(r, node)
    if r.kind(node.input[0]) not in INTEGERS:
        return False
    if len(node.input) == 1:
        r.node("Identity", list(node.input), node.output[0])
        return None
    result = node.input[0]
    for name in node.input[1:-1]:
        result = r.step(node.op_type, [result, name], "of_first_inputs")
    r.node(node.op_type, [result, node.input[-1]], node.output[0])
    return None


REPLACED = {("", "Min"): extrema_of_pairs, ("", "Max"): extrema_of_pairs}
