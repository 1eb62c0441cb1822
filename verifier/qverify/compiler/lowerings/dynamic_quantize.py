"""DynamicQuantizeLinear -> dynamic_quantize."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError

ONNX_TYPES: dict[str, Any] = {"DynamicQuantizeLinear": {}}
SEVERAL_OUTPUTS = True


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError where an output has no name."""
    if len(node.output) != 3 or not all(node.output):
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): {len([n for n in node.output if n])} outputs, wanted 3; give each output a name"
        )
    stream.builder.node("dynamic_quantize", [stream.source(node.input[0])], stream.declare(node))
