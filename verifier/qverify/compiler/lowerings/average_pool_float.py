"""AveragePool on a float stream -> average_pool_float."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.average_pool import ONNX_TYPES as ONNX_TYPES
from qverify.compiler.pool_windows import pool_words
from qverify.onnx_model.graph_view import attributes


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    words = [*pool_words(stream.view, node), attributes(node).get("count_include_pad", 0)]
    stream.builder.node("average_pool_float", [stream.source(node.input[0])], stream.declare(node), words, (), False)
