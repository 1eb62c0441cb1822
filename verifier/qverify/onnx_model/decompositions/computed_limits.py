"""Writes Clip with limits that are computed as Max and Min."""

from __future__ import annotations

import onnx

from qverify.onnx_model.decompositions.narrow_integers import in_int32
from qverify.onnx_model.rewriter import Rewriter, input_name


def clip(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Clips at the lower limit first: if the limits cross, the result is the upper one. Clips 16-bit integers as int32."""
    if in_int32(r, node) is not False:
        return None
    low, high = input_name(node, 1), input_name(node, 2)
    if all(not name or r.is_constant(name) for name in (low, high)):
        return False
    if not high:
        r.node("Max", [node.input[0], low], node.output[0])
    else:
        raised = r.step("Max", [node.input[0], low], "raised") if low else node.input[0]
        r.node("Min", [raised, high], node.output[0])
    return None


REPLACED = {("", "Clip"): clip}
