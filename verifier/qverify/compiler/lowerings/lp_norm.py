"""LpNormalization on a float stream -> lp_norm."""

from __future__ import annotations

from math import prod
from typing import Any

from qverify.compiler.attributes import ANY, only
from qverify.compiler.float_stream import FloatStream
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"LpNormalization": {"axis": ANY, "p": only(1, 2)}}


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    shape, attrs = stream.view.shape(node.input[0]), attributes(node)
    axis = attrs.get("axis", -1) % len(shape)
    words = [prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), attrs.get("p", 2)]
    stream.builder.node("lp_norm", [stream.source(node.input[0])], stream.declare(node), words, (), False)
