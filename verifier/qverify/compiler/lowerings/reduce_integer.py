"""ReduceSum, ReduceMax, ReduceMin and ReduceProd: of integers -> reduce_integer, of floats -> reduce_float."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings import reduce_float
from qverify.compiler.lowerings.reduce_mean import reduced_axes

FUNCTIONS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
EXTREMA = ("ReduceMax", "ReduceMin")
ONNX_TYPES: dict[str, Any] = {kind: reduce_float.READ[kind] for kind in FUNCTIONS}
INTEGERS_TOO = {k: ("int32", "int64", *(("uint8", "int8") if k in EXTREMA else ())) for k in FUNCTIONS}


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node; an extremum keeps the quantization."""
    dtype = stream.view.dtype(node.output[0])
    if dtype not in INTEGERS_TOO[node.op_type]:
        reduce_float.lower_float(stream, node)
        return
    source = stream.source(node.input[0])
    axes = reduced_axes(stream.view, node, len(stream.view.shape(node.input[0])))
    words = [FUNCTIONS.index(node.op_type), sum(1 << a for a in axes)]
    outputs = stream.declare(node, like=source if node.op_type in EXTREMA else "")
    stream.builder.node("reduce_integer", [source], outputs, words)
