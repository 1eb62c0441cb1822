"""ScatterElements and its former name Scatter -> scatter_elements, of constant or computed indices."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.scatter_nd import READ, operands
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"Scatter": {"axis": ANY}, "ScatterElements": {"axis": ANY, "reduction": READ}}


def lower_float(stream: FloatStream, node: Any) -> None:
    inputs, reduction, exact = operands(stream, node)
    axis = attributes(node).get("axis", 0) % len(stream.view.shape(node.input[0]))
    stream.builder.node(
        "scatter_elements", inputs, stream.declare(node, like=inputs[0] or ""), [axis, reduction], (), exact
    )
