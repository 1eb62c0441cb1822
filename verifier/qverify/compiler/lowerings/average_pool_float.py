"""AveragePool on a float stream -> average_pool_float."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.average_pool import ONNX_TYPES as ONNX_TYPES
from qverify.compiler.pool_windows import beyond_pads, pool_words
from qverify.onnx_model.graph_view import attributes
from qverify.onnx_model.windows_beyond_pads import divides_by_part_inside

PAD_RIGHT = 7  # index of this word; the one before it is the bottom's


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    attrs, view = attributes(node), stream.view
    words = [*pool_words(view, node), attrs.get("count_include_pad", 0)]
    if not divides_by_part_inside(view.opset, attrs.get("ceil_mode", 0)):
        for i, more in enumerate(reversed(beyond_pads(view, node))):
            words[PAD_RIGHT - i] += more  # so that the whole kernel counts
    stream.builder.node("average_pool_float", [stream.source(node.input[0])], stream.declare(node), words, (), False)
