"""Source indices and weights of Resize, in the float32 order onnxruntime uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UnsupportedError
from qverify.onnx_model.view import View, attributes

Array = npt.NDArray[Any]
ONE = np.float32(1)


def scales(view: View, node: Any, shape: tuple[int, ...], out: tuple[int, ...]) -> list[np.float32]:
    """The scale of every dim: given (for `axes` only, from opset 18), or fl32(out/in)."""
    place = 1 if view.opset < 11 else 2
    name = node.input[place] if len(node.input) > place else ""
    if name and name not in view.constants:
        raise UnsupportedError(
            f"{node.name} (Resize): its scales are computed at run time; only constants can be compiled"
        )
    given = view.constants[name] if name else np.empty(0)
    axes = [a % len(shape) for a in attributes(node).get("axes", range(len(shape)))]
    if given.size == len(axes):
        found = [np.float32(1)] * len(shape)
        for axis, scale in zip(axes, given, strict=True):
            found[axis] = np.float32(scale)
        return found
    return [np.float32(o) / np.float32(i) for i, o in zip(shape, out, strict=True)]


def positions(view: View, node: Any, size: int, out: int, scale: np.float32) -> Array:
    """float32 source coordinate of each output coordinate. Before opset 11 asymmetric is the only mode."""
    given = attributes(node).get("coordinate_transformation_mode", b"half_pixel").decode()
    mode = "asymmetric" if view.opset < 11 else given
    i = np.arange(out, dtype=np.float32)
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        return np.zeros(out, np.float32) if out == 1 else (i * np.float32(size - 1)) / np.float32(out - 1)
    if mode == "pytorch_half_pixel" and out == 1:
        return np.zeros(1, np.float32)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (i + np.float32(0.5)) / scale - np.float32(0.5)
    raise UnsupportedError(f"{node.name} (Resize): coordinate mode {mode} is not supported")


def nearest_index(view: View, node: Any, shape: tuple[int, ...], out: tuple[int, ...]) -> Array:
    """int32 source index of every output coordinate, dim after dim."""
    rule = "floor" if view.opset < 11 else attributes(node).get("nearest_mode", b"round_prefer_floor").decode()
    rounders: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda p: np.ceil(p - np.float32(0.5)),
        "round_prefer_ceil": lambda p: np.floor(p + np.float32(0.5)),
    }
    parts = []
    for size, wanted, scale in zip(shape, out, scales(view, node, shape, out), strict=True):
        if size == wanted:
            parts.append(np.arange(size))
        else:
            parts.append(np.clip(rounders[rule](positions(view, node, size, wanted, scale)), 0, size - 1))
    return np.concatenate(parts).astype(np.int32)


def linear_tables(view: View, node: Any, shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[Array, Array]:
    """index int32 and weight float32 of resize_linear (NUMERICS.md) for the last two dims."""
    if len(shape) != 4 or shape[:2] != out[:2]:
        raise UnsupportedError(
            f"{node.name} (Resize): linear over {list(shape)} -> {list(out)}; only the last two of four dims are supported"
        )
    indices, weights = [], []
    for axis in (2, 3):
        size, wanted = shape[axis], out[axis]
        p = np.clip(
            positions(view, node, size, wanted, scales(view, node, shape, out)[axis]), 0, np.float32(size - 1)
        ).astype(np.float32)
        i1 = p.astype(np.int32)
        i2 = np.minimum(i1 + 1, size - 1)
        d1, d2 = np.abs(p - i1.astype(np.float32)), np.abs(p - i2.astype(np.float32))
        same = i1 == i2
        d1[same] = d2[same] = np.float32(0.5)
        indices += [i1, i2]
        weights += [d2, d1]
    return np.concatenate(indices).astype(np.int32), np.concatenate(weights).astype(np.float32)
