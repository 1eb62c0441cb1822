"""Split -> split."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.onnx_model.graph_view import GraphView, attributes

ONNX_TYPES = {"Split": {"axis": ANY, "num_outputs": ANY, "split": ANY}}
EIGHT_BIT_KERNELS = ("Split",)
SEVERAL_OUTPUTS = True


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    rank = len(view.shape(node.input[0]))
    builder.node("split", [source], outputs, [attributes(node).get("axis", 0) % rank])
