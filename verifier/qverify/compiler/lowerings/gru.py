"""GRU -> gru, on a float stream."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.recurrences import READ, lower_recurrence

ONNX_TYPES = {"GRU": {**READ, "linear_before_reset": only(0, 1)}}
SEVERAL_OUTPUTS = True


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError."""
    lower_recurrence(stream, node, "gru", ("sigmoid", "tanh"), "linear_before_reset")
