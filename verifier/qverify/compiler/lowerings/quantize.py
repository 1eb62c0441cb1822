"""QuantizeLinear -> quantize, where no unit ends in it."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import QUANTIZE
from qverify.compiler.float_stream import FloatStream

ONNX_TYPES = {"QuantizeLinear": QUANTIZE}


def lower_float(stream: FloatStream, node: Any) -> None:
    y = stream.view.parameters(node, node.output[0])
    source = stream.source(node.input[0])
    stream.builder.tensor(y.spec(y.name, stream.view.shape(y.name)))
    stream.builder.node("quantize", [source], [y.name])
