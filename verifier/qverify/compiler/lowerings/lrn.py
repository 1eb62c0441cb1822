"""LRN -> lrn, on a float stream."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"LRN": {"alpha": ANY, "beta": ANY, "bias": ANY, "size": ANY}}


def lower_float(stream: FloatStream, node: Any) -> None:
    attrs = attributes(node)
    words = [
        attrs["size"],
        *(float_word(attrs.get(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))),
    ]
    stream.builder.node("lrn", [stream.source(node.input[0])], stream.declare(node), words, (), False)
