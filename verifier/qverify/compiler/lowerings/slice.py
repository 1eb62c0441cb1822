"""Slice -> slice."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView

ONNX_TYPES: dict[str, Any] = {"Slice": {}}
EIGHT_BIT_KERNELS = ("Slice",)


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    builder.node("slice", [source], outputs, _words(view, node, view.shape(node.input[0])))


def _words(view: GraphView, node: Any, shape: tuple[int, ...]) -> list[int]:
    rank = len(shape)
    values = [view.constants.get(n) if n else None for n in [*node.input[1:], "", "", "", ""][:4]]
    if values[0] is None or values[1] is None:
        raise UnsupportedError(
            f"{node.name} (Slice): starts or ends are computed at run time; only constants can be compiled"
        )
    axes = values[2].tolist() if values[2] is not None else list(range(len(values[0])))
    steps = values[3].tolist() if values[3] is not None else [1] * len(axes)
    start, step = [0] * rank, [1] * rank
    for axis, first, last, by in zip(axes, values[0].tolist(), values[1].tolist(), steps, strict=True):
        start[axis], _, step[axis] = slice(first, last, by).indices(shape[axis])
    return start + step
