"""MaxPool -> max_pool: it selects elements, so x and y have equal quantization."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY, WINDOW, only
from qverify.compiler.builder import Builder
from qverify.compiler.pool_windows import pool_words
from qverify.onnx_model.graph_view import GraphView

ONNX_TYPES = {"MaxPool": {**WINDOW, "ceil_mode": ANY, "storage_order": only(0)}}
EIGHT_BIT_KERNELS = ("MaxPool",)


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    builder.node("max_pool", [source], outputs, pool_words(view, node))
