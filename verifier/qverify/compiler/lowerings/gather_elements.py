"""GatherElements -> gather_elements, of constant or computed indices."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.gather import indices_of
from qverify.onnx_model.graph_view import GraphView, attributes

ONNX_TYPES = {"GatherElements": {"axis": ANY}}


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    indices = indices_of(builder, view, node, f"{outputs[0]}/indices")
    axis = attributes(node).get("axis", 0) % len(view.shape(node.input[0]))
    builder.node("gather_elements", [source, indices], outputs, [axis])
