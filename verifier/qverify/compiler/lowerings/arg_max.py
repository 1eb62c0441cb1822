"""ArgMax -> arg_max, on a float stream."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"ArgMax": {"axis": ANY, "keepdims": ANY, "select_last_index": ANY}}


def lower_float(stream: FloatStream, node: Any) -> None:
    attrs = attributes(node)
    axis = attrs.get("axis", 0) % len(stream.view.shape(node.input[0]))
    stream.builder.node(
        "arg_max", [stream.source(node.input[0])], stream.declare(node), [axis, attrs.get("select_last_index", 0)]
    )
