"""Trilu -> trilu."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"Trilu": {"upper": only(0, 1)}}


def lower_float(stream: FloatStream, node: Any) -> None:
    diagonal = 0
    if len(node.input) > 1 and node.input[1]:
        constant = stream.view.constants.get(node.input[1])
        if constant is None or constant.size != 1:
            raise UnsupportedError(f"{node.name} (Trilu): its diagonal is not one constant number; make it a constant")
        diagonal = int(constant.reshape(()).clip(-(2**31), 2**31 - 1))
    words = [diagonal, attributes(node).get("upper", 1)]
    stream.builder.node("trilu", [stream.source(node.input[0])], stream.declare(node), words)
