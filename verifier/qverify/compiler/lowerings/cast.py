"""Cast -> cast, among float32, int32, int64, bool and the 8-bit integers as sources."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError

ONNX_TYPES = {"Cast": {"to": ANY, "saturate": ANY, "round_mode": ANY}}
TO = ("float32", "int32", "int64", "bool")
FROM = (*TO, "uint8", "int8")


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for types that the op does not have."""
    source, target = (stream.view.dtype(n) for n in (node.input[0], node.output[0]))
    if source not in FROM or target not in TO:
        raise UnsupportedError(
            f"{node.name} (Cast): from {source} to {target}; wanted one of {', '.join(FROM)} to one of {', '.join(TO)}"
        )
    stream.builder.node("cast", [stream.source(node.input[0])], stream.declare(node))
