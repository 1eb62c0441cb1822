"""Sum, Mean, and Max and Min of any number of tensors except two, on a float stream -> variadic_float. Max and Min of
two are lowered by elementwise_float."""

from __future__ import annotations

from typing import Any

from qverify.compiler.float_stream import FloatStream
from qverify.model_bin.float_functions import VARIADIC

ONNX_TYPES: dict[str, dict[str, Any]] = {"Mean": {}, "Sum": {}}


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    inputs: list[str | None] = [stream.source(n) for n in node.input]
    words = [VARIADIC.index(node.op_type.lower())]
    stream.builder.node("variadic_float", inputs, stream.declare(node), words, (), False)
