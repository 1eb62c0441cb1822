"""TopK with a constant k -> top_k."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY, only
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"TopK": {"axis": ANY, "largest": only(0, 1), "sorted": only(1)}}
SEVERAL_OUTPUTS = True


def lower_float(stream: FloatStream, node: Any) -> None:
    view, where = stream.view, f"{node.name} (TopK)"
    if len(node.input) < 2 or node.input[1] not in view.constants:
        raise UnsupportedError(f"{where}: its k is no constant input; wanted one, as from opset 10 on")
    if len([n for n in node.output if n]) != 2:
        raise UnsupportedError(f"{where}: one of its outputs has no name; wanted names for both")
    attrs, rank = attributes(node), len(view.shape(node.input[0]))
    source = stream.source(node.input[0])
    words = [attrs.get("axis", -1) % rank, attrs.get("largest", 1)]
    stream.builder.node("top_k", [source], stream.declare(node), words)
