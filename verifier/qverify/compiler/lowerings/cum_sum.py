"""CumSum -> cum_sum, of float32, int32 and int64."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"CumSum": {"exclusive": only(0, 1), "reverse": only(0, 1)}}


def lower_float(stream: FloatStream, node: Any) -> None:
    view, where = stream.view, f"{node.name} (CumSum)"
    dtype, axis = view.dtype(node.input[0]), view.constants.get(node.input[1])
    if dtype not in ("float32", "int32", "int64"):
        raise UnsupportedError(f"{where}: on {dtype}; wanted float32, int32 or int64")
    if axis is None or axis.size != 1:
        raise UnsupportedError(f"{where}: its axis is not one constant number; make it a constant")
    attrs, rank = attributes(node), len(view.shape(node.input[0]))
    words = [int(axis.reshape(())) % rank, attrs.get("exclusive", 0), attrs.get("reverse", 0)]
    source = stream.source(node.input[0])
    stream.builder.node("cum_sum", [source], stream.declare(node), words, (), dtype != "float32")
