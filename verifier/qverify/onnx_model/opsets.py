"""The version of the standard operator set that a model states, and the domain of quantizing nodes that are added."""

from __future__ import annotations

import onnx

from qverify.onnx_model.node_order import inner_nodes

NEWEST_QUANTIZERS = 27  # newest opset in which onnxruntime has kernels of QuantizeLinear and DequantizeLinear
SIXTEEN_BITS = 21  # oldest opset in which they take 16 bits
MICROSOFT = "com.microsoft"  # has both, of 8 and 16 bits, in every opset


def standard_opset(model: onnx.ModelProto) -> int:
    """Returns the version of the standard ONNX operator set, 0 if the model states none."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)


def lower_opset(model: onnx.ModelProto) -> None:
    """Sets the opset of a model that is newer than onnxruntime's quantizers to the newest that has them, in place, if
    each of its operators is the same there. The compiler adds quantizers, which the file may have of another domain
    only."""
    opset = standard_opset(model)
    if opset <= NEWEST_QUANTIZERS or opset > onnx.defs.onnx_opset_version():
        return
    nodes = (inner for node in model.graph.node for inner in inner_nodes(node))
    kinds = {node.op_type for node in nodes if node.domain in ("", "ai.onnx")}
    if all(onnx.defs.get_schema(kind, opset, "").since_version <= NEWEST_QUANTIZERS for kind in kinds):
        for entry in model.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = NEWEST_QUANTIZERS


def quantizer_domain(opset: int, sixteen_bit: bool = False) -> str:
    """Returns the domain whose QuantizeLinear and DequantizeLinear onnxruntime runs in a model of this opset."""
    return MICROSOFT if opset > NEWEST_QUANTIZERS or (sixteen_bit and opset < SIXTEEN_BITS) else ""
