"""Gather -> gather, of constant indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.errors import UnsupportedError
from qverify.onnx_model.view import View, attributes

ONNX_TYPES = {"Gather": {"axis": ANY}}
EIGHT_BIT_KERNELS = ("Gather",)


def move(builder: Builder, view: View, node: Any, source: str, outputs: list[str]) -> None:
    indices, rank = view.constants.get(node.input[1]), len(view.shape(node.input[0]))
    if indices is None:
        raise UnsupportedError(
            f"{node.name} (Gather): indices are computed at run time; only constant indices can be compiled"
        )
    name = builder.made(f"{outputs[0]}/indices", indices.astype(np.int64))
    builder.node("gather", [source, name], outputs, [attributes(node).get("axis", 0) % rank])
