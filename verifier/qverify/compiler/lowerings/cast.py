"""Cast -> cast, among float32, bool and the integers of 8, 16, 32 and 64 bits."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError

ONNX_TYPES = {"Cast": {"to": ANY, "saturate": ANY, "round_mode": ANY}}
TYPES = ("float32", "int32", "int64", "bool", "uint8", "int8", "uint16", "int16")


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for types that the op does not have."""
    source, target = (stream.view.dtype(n) for n in (node.input[0], node.output[0]))
    if source not in TYPES or target not in TYPES:
        raise UnsupportedError(f"{node.name} (Cast): from {source} to {target}; wanted {', '.join(TYPES)}")
    stream.builder.node("cast", [stream.source(node.input[0])], stream.declare(node))
