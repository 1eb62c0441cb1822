"""Tile and Expand -> tile."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView

ONNX_TYPES: dict[str, Any] = {"Expand": {}, "Tile": {}}
EIGHT_BIT_KERNELS = ("Expand", "Tile")


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    if node.input[1] not in view.constants:
        what = "shape" if node.op_type == "Expand" else "repeats"
        raise UnsupportedError(f"{node.name} ({node.op_type}): its {what} is computed at run time; wanted a constant")
    builder.node("tile", [source], outputs)
