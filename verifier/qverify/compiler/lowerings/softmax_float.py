"""Softmax on a float stream -> softmax_float."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.softmax import ONNX_TYPES as ONNX_TYPES
from qverify.compiler.lowerings.softmax import softmax_rows
from qverify.onnx_model.graph_view import attributes


def lower_float(stream: FloatStream, node: Any) -> None:
    axis = attributes(node).get("axis", -1 if stream.view.opset >= 13 else 1)
    _, rows = softmax_rows(stream.view.shape(node.input[0]), axis, stream.view.opset)
    stream.builder.node("softmax_float", [stream.source(node.input[0])], stream.declare(node), rows, (), False)
