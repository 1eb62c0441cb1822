"""DequantizeLinear -> dequantize, where a float stream reads it."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import QUANTIZE, only
from qverify.compiler.float_stream import FloatStream

FLOATS = only(0, 1, 10, 16)  # ONNX's numbers of no type, float32, float16 and bfloat16
ONNX_TYPES = {"DequantizeLinear": {**QUANTIZE, "output_dtype": FLOATS}}


def lower_float(stream: FloatStream, node: Any) -> None:
    quantized = stream.view.parameters(node, node.input[0])
    if quantized.value is not None:
        return
    stream.builder.tensor(quantized.spec(quantized.name, stream.view.shape(quantized.name)))
    stream.builder.node("dequantize", [quantized.name], stream.declare(node))
