"""Operators that only move elements, on any dtype: Reshape, Transpose, Slice, Split, Gather, Pad, MaxPool, nearest Resize, Concat ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.conv import flat, window_pads
from qverify.compiler.lowerings.resize import nearest_index
from qverify.errors import UnsupportedError
from qverify.onnx_model.view import View, attributes

SHAPE_ONLY = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")
ONNX_TYPES = (*SHAPE_ONLY, "Transpose", "Slice", "Split", "Gather", "Pad", "MaxPool", "Resize", "DepthToSpace")


def is_movement(view: View, node: Any) -> bool:
    """Whether the node copies elements unchanged (for Resize: nearest; for MaxPool: picks one)."""
    if node.op_type == "Resize":
        return bool(attributes(node).get("mode", b"nearest") == b"nearest")
    if node.op_type == "Pad":
        return False
    return node.op_type in ONNX_TYPES


def lower(builder: Builder, view: View, node: Any, source: str, outputs: list[str]) -> None:
    """One model.bin node reading `source` (already a tensor) and writing `outputs` (their specs already there)."""
    attrs, shape, out = attributes(node), view.shape(node.input[0]), view.shape(node.output[0])
    kind = node.op_type
    if kind in SHAPE_ONLY:
        builder.node("reshape", [source], outputs)
    elif kind == "Transpose":
        builder.node("transpose", [source], outputs, attrs.get("perm", list(range(len(shape)))[::-1]))
    elif kind == "Slice":
        builder.node("slice", [source], outputs, _slice_words(view, node, shape))
    elif kind == "Split":
        builder.node("split", [source], outputs, [attrs.get("axis", 0) % len(shape)])
    elif kind == "Gather":
        indices = view.constants.get(node.input[1])
        if indices is None:
            raise UnsupportedError(
                f"{node.name} (Gather): indices are computed at run time; only constant indices can be compiled"
            )
        name = builder.made(f"{outputs[0]}/indices", indices.astype(np.int64))
        builder.node("gather", [source, name], outputs, [attrs.get("axis", 0) % len(shape)])
    elif kind == "MaxPool":
        window, spatial = attrs["kernel_shape"], len(attrs["kernel_shape"])
        if spatial > 2 or (len(node.output) > 1 and node.output[1]):
            raise UnsupportedError(f"{node.name} (MaxPool): {spatial}-D or index output is not supported")
        pads = window_pads(node, attrs, shape[2:], out[2:], tuple(window))
        words = [
            *flat(window, spatial),
            *flat(attrs.get("strides", [1] * spatial), spatial),
            *pads,
            *flat(attrs.get("dilations", [1] * spatial), spatial),
        ]
        builder.node("max_pool", [source], outputs, words)
    elif kind == "Resize":
        index = builder.made(f"{outputs[0]}/index", nearest_index(view, node, shape, out))
        builder.node("resize_nearest", [source, index], outputs)
    elif kind == "DepthToSpace":
        builder.node(
            "depth_to_space", [source], outputs, [attrs["blocksize"], int(attrs.get("mode", b"DCR") == b"CRD")]
        )
    else:
        raise UnsupportedError(f"{node.name} ({kind}): not a movement")


def _slice_words(view: View, node: Any, shape: tuple[int, ...]) -> list[int]:
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
