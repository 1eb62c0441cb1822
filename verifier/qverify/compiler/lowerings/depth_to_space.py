"""DepthToSpace -> depth_to_space."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import Builder
from qverify.onnx_model.graph_view import GraphView, attributes

ONNX_TYPES = {"DepthToSpace": {"blocksize": ANY, "mode": only(b"DCR", b"CRD")}}


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    attrs = attributes(node)
    words = [attrs["blocksize"], int(attrs.get("mode", b"DCR") == b"CRD")]
    builder.node("depth_to_space", [source], outputs, words)
