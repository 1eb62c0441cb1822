"""RMSNormalization, and onnxruntime's SimplifiedLayerNormalization, on a float stream -> rms_norm."""

from __future__ import annotations

from math import prod
from typing import Any

from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.layer_norm import ONNX_TYPES as LAYER_NORM
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), LAYER_NORM["LayerNormalization"])


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    shape, attrs = stream.view.shape(node.input[0]), attributes(node)
    depth, size = prod(shape[attrs.get("axis", -1) % len(shape) :]), prod(stream.view.shape(node.input[1]))
    if size != depth:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): a scale of {size} elements over rows of {depth}; only one value per element is supported"
        )
    words = [depth, float_word(attrs.get("epsilon", 1e-5))]
    inputs: list[str | None] = [stream.source(n) for n in node.input]
    stream.builder.node("rms_norm", inputs, stream.declare(node), words, (), False)
