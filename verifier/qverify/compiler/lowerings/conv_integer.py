"""ConvInteger -> conv_integer."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.conv import ONNX_TYPES as CONV
from qverify.compiler.lowerings.conv_float import planar, spatial_words
from qverify.compiler.lowerings.matmul_integer import integer_operands

ONNX_TYPES: dict[str, Any] = {"ConvInteger": CONV["Conv"]}


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for 3-D, or weights of a 1-D convolution that are not constant."""
    words = spatial_words(stream, node)
    x, w, zero_x, zero_w = integer_operands(stream, node, stream.view.shape(node.input[1])[0])
    stream.builder.node("conv_integer", [x, planar(stream, node, w), zero_x, zero_w], stream.declare(node), words)
