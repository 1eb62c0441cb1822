"""QuantizeBlocks -> quantize_blocks; integer_blocks.py writes it for a MatMulNBits of accuracy level 4."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream

ONNX_TYPES: dict[str, Any] = {"QuantizeBlocks": {"pads": ANY, "shape": ANY}}
SEVERAL_OUTPUTS = True


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node."""
    stream.builder.node("quantize_blocks", [stream.source(node.input[0])], stream.declare(node))
