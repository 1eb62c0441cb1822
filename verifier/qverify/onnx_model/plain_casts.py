"""Removes casts to the type that a tensor already has, and writes CastLike as Cast."""

from __future__ import annotations

import onnx
from onnx import helper

from qverify.onnx_model.infer_types import Types


def casts_to_identity(graph: onnx.GraphProto, types: Types) -> None:
    """Turns every Cast and CastLike to the type that its input already has into an Identity, every other CastLike into
    a Cast, in place."""
    for node in graph.node:
        if node.op_type not in ("Cast", "CastLike") or node.domain not in ("", "ai.onnx"):
            continue
        if not node.input:
            continue
        before, after = types.get(node.input[0]), types.get(node.output[0])
        if before is not None and after is not None and before[0] == after[0]:
            node.op_type = "Identity"
            del node.attribute[:], node.input[1:]
        elif node.op_type == "CastLike" and after is not None:
            node.op_type = "Cast"
            node.attribute.append(helper.make_attribute("to", after[0]))
            del node.input[1:]
