"""Leaves out the operands of Concat that have no elements, which model.bin cannot have."""

from __future__ import annotations

import onnx

from qverify.onnx_model.rewriter import Rewriter


def concat_without_empty_parts(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Joins the other operands; a single one is copied."""
    kept = [name for name in node.input if not r.is_empty(name)]
    if len(kept) in (0, len(node.input)):
        return False
    if len(kept) == 1:
        r.node("Identity", kept, node.output[0])
    else:
        r.node("Concat", kept, node.output[0], axis=next(a.i for a in node.attribute if a.name == "axis"))
    return None


REPLACED = {("", "Concat"): concat_without_empty_parts}
