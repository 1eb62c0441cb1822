"""Writes a FusedMatMul whose batch dims lie behind the first one (transBatchA, transBatchB) as Transpose and FusedMatMul,
and TransposeMatMul, its former name."""

from __future__ import annotations

import onnx
from onnx import helper

from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute

ATTRIBUTES = ("transBatchA", "transBatchB")


def product(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Moves the first dim of an operand behind its batch dims, before the last one; transA and transB then exchange the
    last two."""
    if node.op_type == "FusedMatMul" and not any(attribute(node, name, 0) for name in ATTRIBUTES):
        return False
    operands = list(node.input)
    for at, name in enumerate(ATTRIBUTES):
        rank = len(r.dims(operands[at]))
        if attribute(node, name, 0) and rank > 2:
            perm = [*range(1, rank - 1), 0, rank - 1]
            operands[at] = r.step("Transpose", [operands[at]], f"operand{at}", perm=perm)
    kept = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name not in ATTRIBUTES}
    r.node("FusedMatMul", operands, node.output[0], MICROSOFT, **kept)
    return None


REPLACED = {(MICROSOFT, kind): product for kind in ("FusedMatMul", "TransposeMatMul")}
