"""DequantizeLinear -> dequantize, where a float stream reads it."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import QUANTIZE
from qverify.compiler.float_stream import FloatStream

ONNX_TYPES = {"DequantizeLinear": QUANTIZE}


def lower_float(stream: FloatStream, node: Any) -> None:
    quantized = stream.view.parameters(node, node.input[0])
    if quantized.value is not None:
        return
    stream.builder.tensor(quantized.spec(quantized.name, stream.view.shape(quantized.name)))
    stream.builder.node("dequantize", [quantized.name], stream.declare(node))
