"""RNN -> rnn, on a float stream."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.compiler.recurrences import READ, lower_recurrence

ONNX_TYPES = {"RNN": {**READ}}
SEVERAL_OUTPUTS = True


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError."""
    lower_recurrence(stream, node, "rnn", ("tanh",), "")
