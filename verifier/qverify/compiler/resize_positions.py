"""Scales and source coordinates of a Resize node, in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compiler.attributes import ANY, only
from qverify.errors import NotOnHostError, UnsupportedError
from qverify.onnx_model.graph_view import GraphView, attributes
from qverify.onnx_model.resize_coordinates import MODES, source_coordinates

Array = npt.NDArray[Any]
RESIZE: dict[str, frozenset[Any] | None] = {
    "antialias": ANY,
    "coordinate_transformation_mode": only(*(mode.encode() for mode in MODES)),
    "cubic_coeff_a": ANY,
    "exclude_outside": ANY,
    "extrapolation_value": ANY,
    "keep_aspect_ratio_policy": only(b"stretch", b"not_larger", b"not_smaller"),
    "mode": only(b"nearest", b"linear", b"cubic"),
    "nearest_mode": only(b"floor", b"ceil", b"round_prefer_floor", b"round_prefer_ceil"),
    "axes": ANY,
}


def scales(view: GraphView, node: Any, shape: tuple[int, ...], out: tuple[int, ...]) -> list[np.float32]:
    """Returns the scale of every dim: the one the node states (from opset 18 for `axes` only), or fl32(out/in). With an
    aspect ratio that is kept, all axes have the least or the largest scale of the stated sizes."""
    place = 1 if view.opset < 11 else 2
    name = node.input[place] if len(node.input) > place else ""
    if name and name not in view.constants:
        raise UnsupportedError(
            f"{node.name} (Resize): its scales are computed at run time; only constants can be compiled"
        )
    stored = view.constants[name] if name else np.empty(0)
    axes = [a % len(shape) for a in attributes(node).get("axes", range(len(shape)))]
    if stored.size == len(axes):
        values = [np.float32(1)] * len(shape)
        for axis, scale in zip(axes, stored, strict=True):
            values[axis] = np.float32(scale)
        return values
    if attributes(node).get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        return _kept_ratio(view, node, shape)
    return [np.float32(o) / np.float32(i) for i, o in zip(shape, out, strict=True)]


def _kept_ratio(view: GraphView, node: Any, shape: tuple[int, ...]) -> list[np.float32]:
    """Returns the scale of every dim with keep_aspect_ratio_policy. Raises UnsupportedError for sizes that are not
    constant, and NotOnHostError for axes counted from the last, which onnxruntime does not resize then."""
    attrs, where = attributes(node), f"{node.name} (Resize)"
    sizes, axes = view.constants.get([*node.input, "", "", ""][3]), list(attrs.get("axes", range(len(shape))))
    if sizes is None:
        raise UnsupportedError(f"{where}: its sizes are computed at run time; only constants can be compiled")
    if min(axes) < 0:
        raise NotOnHostError(
            f"{where}: axes {axes} with keep_aspect_ratio_policy, which onnxruntime does not resize; count them from the first: {[a % len(shape) for a in axes]}"
        )
    stated = [np.float32(o) / np.float32(shape[a]) for a, o in zip(axes, sizes, strict=True)]
    scale = min(stated) if attrs["keep_aspect_ratio_policy"] == b"not_larger" else max(stated)
    return [scale if a in axes else np.float32(1) for a in range(len(shape))]


def positions(view: GraphView, node: Any, size: int, out: int, scale: np.float32) -> Array:
    """Returns the float32 source coordinate of each output coordinate. Before opset 11 asymmetric is the only mode."""
    stated = attributes(node).get("coordinate_transformation_mode", b"half_pixel").decode(errors="replace")
    mode = "asymmetric" if view.opset < 11 else stated
    if mode not in MODES:
        raise UnsupportedError(f"{node.name} (Resize): coordinate mode {mode} is not supported")
    return source_coordinates(mode, size, out, scale)
