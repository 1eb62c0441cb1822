"""Resize by nearest element -> resize_nearest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qverify.compiler.builder import Array, Builder
from qverify.compiler.resize_positions import RESIZE, positions, scales
from qverify.onnx_model.graph_view import GraphView, attributes

ONNX_TYPES = {"Resize": RESIZE}
EIGHT_BIT_KERNELS = ("Resize",)


def moves(node: Any) -> bool:
    """Returns whether this Resize copies elements."""
    attrs = attributes(node)
    return bool(attrs.get("mode", b"nearest") == b"nearest" and not attrs.get("antialias", 0))


def move(builder: Builder, view: GraphView, node: Any, source: str, outputs: list[str]) -> None:
    index = nearest_index(view, node, view.shape(node.input[0]), view.shape(node.output[0]))
    builder.node("resize_nearest", [source, builder.new_constant(f"{outputs[0]}/index", index)], outputs)


def nearest_index(view: GraphView, node: Any, shape: tuple[int, ...], out: tuple[int, ...]) -> Array:
    """Returns the int32 source index of every output coordinate, dim after dim."""
    rule = "floor" if view.opset < 11 else attributes(node).get("nearest_mode", b"round_prefer_floor").decode()
    rounders: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda p: np.ceil(p - np.float32(0.5)),
        "round_prefer_ceil": lambda p: np.floor(p + np.float32(0.5)),
    }
    parts = []
    for size, out_size, scale in zip(shape, out, scales(view, node, shape, out), strict=True):
        if size == out_size and scale == 1:
            parts.append(np.arange(size))
        else:
            parts.append(np.clip(rounders[rule](positions(view, node, size, out_size, scale)), 0, size - 1))
    return np.concatenate(parts).astype(np.int32)
