"""Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout -> reshape: the same elements in the same order."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.onnx_model.graph_view import GraphView

ONNX_TYPES: dict[str, Any] = {
    "Reshape": {"allowzero": ANY},
    "Flatten": {"axis": ANY},
    "Squeeze": {"axes": ANY},
    "Unsqueeze": {"axes": ANY},
    "Identity": {},
    "Dropout": {"ratio": ANY, "seed": ANY},
}
EIGHT_BIT_KERNELS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    builder.node("reshape", [source], outputs)
