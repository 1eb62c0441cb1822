"""Transpose -> transpose."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.onnx_model.graph_view import GraphView, attributes

ONNX_TYPES = {"Transpose": {"perm": ANY}}
EIGHT_BIT_KERNELS = ("Transpose",)


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    reverse = list(range(len(view.shape(node.input[0]))))[::-1]
    builder.node("transpose", [source], outputs, attributes(node).get("perm", reverse))
