"""DynamicQuantizeLSTM -> lstm_integer, on a float stream."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.recurrences import READ, lower_recurrence
from qverify.errors import UnsupportedError

ONNX_TYPES = {"DynamicQuantizeLSTM": {**READ, "input_forget": only(0, 1)}}
SEVERAL_OUTPUTS = True


def lower_float(stream: FloatStream, node: Any) -> None:
    """Writes the node. Raises UnsupportedError for sequence lengths, and for a batch, because onnxruntime quantizes the
    rows of each of its threads separately."""
    batch = stream.view.shape(node.input[0])[1]
    if batch != 1:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): a batch of {batch}, whose result in onnxruntime depends on its number of threads; give a batch of 1, for example with --shape"
        )
    if len(node.input) > 4 and node.input[4]:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): sequence_lens is not supported; export without it, or cut the model before it"
        )
    lower_recurrence(stream, node, "lstm_integer", ("sigmoid", "tanh", "tanh"), "input_forget")
