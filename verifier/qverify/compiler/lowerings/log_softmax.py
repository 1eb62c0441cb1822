"""LogSoftmax on a float stream -> log_softmax."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.softmax import softmax_rows
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"LogSoftmax": {"axis": ANY}}


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    axis = attributes(node).get("axis", -1 if stream.view.opset >= 13 else 1)
    _, rows = softmax_rows(stream.view.shape(node.input[0]), axis, stream.view.opset)
    stream.builder.node("log_softmax", [stream.source(node.input[0])], stream.declare(node), rows, (), False)
