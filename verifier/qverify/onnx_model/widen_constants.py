"""Converts constants of 2 and 4 bits to 8-bit integers of the same values."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from qverify.onnx_model.held_data import value_of

PER_BYTE = {
    number: 2 if name.endswith("4") else 4
    for name, number in onnx.TensorProto.DataType.items()
    if name in ("INT4", "UINT4", "INT2", "UINT2")  # onnx has the last two since version 1.20
}


def widen_constants(graph: onnx.GraphProto) -> None:
    """Converts initializers of 2 and 4 bits that only DequantizeLinear reads to 8 bits, in place; their values stay the
    same. If a node also reads an integer that cannot be converted, all its constants stay as they are."""
    small = {i.name: i for i in graph.initializer if i.data_type in PER_BYTE}
    wide = set(small) - {o.name for o in graph.output}
    for _ in range(len(graph.node) if wide else 0):  # a constant that one node keeps is kept for all its readers
        kept = {i for node in graph.node if not _widens(node, wide) for i in node.input}
        if not wide & kept:
            break
        wide -= kept
    for name in wide:
        signed = onnx.TensorProto.DataType.Name(small[name].data_type).startswith("INT")
        value = value_of(small[name]).astype(np.int8 if signed else np.uint8)
        small[name].CopyFrom(numpy_helper.from_array(value, name))


def _widens(node: onnx.NodeProto, wide: set[str]) -> bool:
    """Returns whether the node is a DequantizeLinear whose integer inputs are all among these constants."""
    integers = [node.input[at] for at in (0, 2) if len(node.input) > at and node.input[at]]
    return node.op_type == "DequantizeLinear" and bool(integers) and wide.issuperset(integers)
