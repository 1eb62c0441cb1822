"""Writes linear Resize over dims other than the last two of four: transposes up to two of them there; three dims take
two steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

from qverify.onnx_model.resize_coordinates import resize_channels_last
from qverify.onnx_model.rewriter import Array, Dims, Rewriter, attribute, input_name

EIGHT_BITS = (onnx.TensorProto.UINT8, onnx.TensorProto.INT8)
KEPT = (
    "antialias",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
    "mode",
    "nearest_mode",
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The sizes of two axes that a Resize states, and its keep_aspect_ratio_policy."""

    sizes: list[int]
    policy: bytes


def linear_resize(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Resizes the dims that change, the last two first. Integers, which onnxruntime truncates after every step, must
    need at most one step."""
    mode, smooth = attribute(node, "mode", b"nearest"), attribute(node, "antialias", 0)
    if mode not in (b"linear", b"cubic") or r.opset < 11:
        return False
    shape, out = r.dims(node.input[0]), r.dims(node.output[0])
    if attribute(node, "keep_aspect_ratio_policy", b"stretch") != b"stretch":
        return _with_ratio(r, node, shape, out)
    scales = _scales(r, node, shape)
    changed = [a for a in range(len(shape)) if shape[a] != out[a] or (scales is not None and scales[a] != 1)]
    if len(shape) == 4 and (not changed or changed[0] >= 2):
        return False
    if shape == out:  # onnxruntime copies, whatever the scales are
        r.node("Identity", [node.input[0]], node.output[0])
        return None
    if len(changed) > (2 if smooth or mode == b"cubic" else 3):
        raise r.refusal(
            f"{mode.decode(errors='replace')} over {list(shape)} -> {list(out)} is not supported; resize fewer dims"
        )
    if (
        mode == b"linear"
        and not smooth
        and len(shape) == 4
        and changed[0] == 1
        and changed[-1] < 3
        and r.kind(node.input[0]) in EIGHT_BITS
    ):
        resize_channels_last(r, node, out, scales)
        return None
    if r.kind(node.input[0]) != onnx.TensorProto.FLOAT:
        raise r.refusal(
            f"linear over {list(shape)} -> {list(out)} of integers is not supported; only the last two of four dims are, and of 8 bits the second and third"
        )
    if len(changed) < 3:
        _step(r, node, (node.input[0], shape), changed, out, scales, node.output[0])
        return None
    between = tuple(o if a in changed[1:] else s for a, (s, o) in enumerate(zip(shape, out, strict=True)))
    half = _step(r, node, (node.input[0], shape), changed[1:], between, scales, r.fresh("resized"))
    _step(r, node, (half, between), changed[:1], out, scales, node.output[0])
    return None


def _with_ratio(r: Rewriter, node: onnx.NodeProto, shape: Dims, out: Dims) -> bool | None:
    """Resizes the stated axes with the aspect ratio that the node keeps; all of them have one scale."""
    axes = [int(a) for a in attribute(node, "axes", range(len(shape)))]
    if len(shape) == 4 and min(axes) in (2, 3, *range(-4, 0)):
        return False
    if shape == out:
        r.node("Identity", [node.input[0]], node.output[0])
        return None
    sizes = r.value(input_name(node, 3))
    if sizes is None or len(axes) != 2 or min(axes) < 0 or r.kind(node.input[0]) != onnx.TensorProto.FLOAT:
        raise r.refusal(
            f"keep_aspect_ratio_policy over {list(shape)} -> {list(out)} is not supported; state two axes, counted from the first"
        )
    ratio = Ratio([int(sizes[axes.index(a)]) for a in sorted(axes)], attribute(node, "keep_aspect_ratio_policy", b""))
    _step(r, node, (node.input[0], shape), sorted(axes), out, ratio, node.output[0])
    return None


def _scales(r: Rewriter, node: onnx.NodeProto, shape: Dims) -> Array | None:
    """Returns the scale of every dim, or None if the node states sizes instead."""
    name = input_name(node, 2)
    if not name:
        return None
    value = r.value(name)
    if value is None:
        raise r.refusal("its scales are computed at run time; only constants can be compiled")
    axes, scales = attribute(node, "axes", range(len(shape))), np.ones(len(shape), np.float32)
    if value.size == len(axes):
        scales[[a % len(shape) for a in axes]] = value
        return scales
    return None


def _step(
    r: Rewriter,
    node: onnx.NodeProto,
    x: tuple[str, Dims],
    axes: list[int],
    out: Dims,
    scales: Array | Ratio | None,
    to: str,
) -> str:
    """Writes the Resize of one or two dims of x (its name and dims) between movements of these dims to the end and
    back, and returns `to`."""
    source, shape = x
    order = [a for a in range(len(shape)) if a not in axes] + axes
    if order != sorted(order):
        source = r.step("Transpose", [source], "resized_last", perm=order)
    inner = [1] * (2 - len(axes)) + [shape[a] for a in axes]
    source = r.step("Reshape", [source, r.ints("planes_dims", [1, prod(shape) // prod(inner), *inner])], "planes")
    resized = [1] * (2 - len(axes)) + [out[a] for a in axes]
    kept = {n: attribute(node, n, None) for n in KEPT}
    if isinstance(scales, Ratio):
        sizes = ["", "", r.ints("sizes", scales.sizes)]
        kept |= {"axes": [2, 3], "keep_aspect_ratio_policy": scales.policy}
    elif scales is not None:
        ends = [1.0] * (4 - len(axes)) + [float(scales[a]) for a in axes]
        sizes = ["", r.constant("scales", np.array(ends, np.float32))]
    else:
        sizes = ["", "", r.ints("sizes", [1, prod(shape) // prod(inner), *resized])]
    planes = r.step("Resize", [source, *sizes], "resized_planes", **{k: v for k, v in kept.items() if v is not None})
    moved = to if order == sorted(order) else r.fresh("resized_dims")
    r.node("Reshape", [planes, r.ints("dims", [out[a] for a in order])], moved)
    if moved != to:
        r.node("Transpose", [moved], to, perm=[int(a) for a in np.argsort(order)])
    return to


REPLACED = {("", "Resize"): linear_resize}
