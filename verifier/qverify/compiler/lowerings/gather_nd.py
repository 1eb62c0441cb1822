"""GatherND -> gather_nd, of constant or computed indices."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.gather import indices_of
from qverify.onnx_model.graph_view import GraphView, attributes

ONNX_TYPES = {"GatherND": {"batch_dims": ANY}}


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    indices = indices_of(builder, view, node, f"{outputs[0]}/indices")
    builder.node("gather_nd", [source, indices], outputs, [attributes(node).get("batch_dims", 0)])
