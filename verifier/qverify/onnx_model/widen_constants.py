"""Converts constants of types that onnxruntime has no kernel for to wider ones of the same values: integers of 2 and 4
bits to 8 bits, float4 (NVFP4, MXFP4) to float8, scales of float8e8m0 (MXFP4, MXFP8) to float32."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.held_data import value_of

PER_BYTE = {
    number: 2 if name.endswith("4") else 4
    for name, number in onnx.TensorProto.DataType.items()
    if name in ("INT4", "UINT4", "INT2", "UINT2")  # onnx has the last two since version 1.20
}
WIDER = {  # type to that of the same values, as numpy's
    **{n: np.int8 if onnx.TensorProto.DataType.Name(n).startswith("INT") else np.uint8 for n in PER_BYTE},
    onnx.TensorProto.FLOAT4E2M1: helper.tensor_dtype_to_np_dtype(onnx.TensorProto.FLOAT8E4M3FN),
}


def widen_constants(graph: onnx.GraphProto) -> None:
    """Converts initializers of the types of WIDER that only DequantizeLinear reads, and scales of float8e8m0, in place;
    their values stay the same. If a node also reads an integer that cannot be converted, all its constants stay as they
    are."""
    _widen_scales(graph)
    small = {i.name: i for i in graph.initializer if i.data_type in WIDER}
    wide = set(small) - {o.name for o in graph.output}
    for _ in range(len(graph.node) if wide else 0):  # a constant that one node keeps is kept for all its readers
        kept = {i for node in graph.node if not _widens(node, wide) for i in node.input}
        if not wide & kept:
            break
        wide -= kept
    for name in wide:
        value = value_of(small[name]).astype(WIDER[small[name].data_type])
        small[name].CopyFrom(numpy_helper.from_array(value, name))


def _widens(node: onnx.NodeProto, wide: set[str]) -> bool:
    """Returns whether the node is a DequantizeLinear whose quantized inputs are all among these constants."""
    quantized = [node.input[at] for at in (0, 2) if len(node.input) > at and node.input[at]]
    return node.op_type == "DequantizeLinear" and bool(quantized) and wide.issuperset(quantized)


def _widen_scales(graph: onnx.GraphProto) -> None:
    """Converts initializers of float8e8m0 without NaN, which are powers of two, to float32, if only nodes read them that
    make float32 of them: a Cast, or a DequantizeLinear whose scale they are."""
    scales = {i.name: i for i in graph.initializer if i.data_type == onnx.TensorProto.FLOAT8E8M0}
    kept = {o.name for o in graph.output}
    for node in graph.node if scales else ():
        kept.update(name for at, name in enumerate(node.input) if not _reads_as_float32(node, at))
    for name in scales.keys() - kept:
        value = value_of(scales[name]).astype(np.float32)
        if not np.isnan(value).any():
            scales[name].CopyFrom(numpy_helper.from_array(value, name))


def _reads_as_float32(node: onnx.NodeProto, at: int) -> bool:
    kind = {"Cast": (0, "to"), "DequantizeLinear": (1, "output_dtype")}.get(node.op_type)
    return (
        kind is not None
        and at == kind[0]
        and any(a.name == kind[1] and a.i == onnx.TensorProto.FLOAT for a in node.attribute)
    )
