"""Source coordinates of Resize, computed in float32 in the same order as onnxruntime, and its linear resizing of integers
with the channels last."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Array, Dims, Rewriter, attribute

MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")
FRACTION_BITS = 10  # of the weight of a neighbour


def source_coordinates(mode: str, size: int, out: int, scale: np.float32) -> Array:
    """Returns the float32 source coordinate of each output coordinate of one dim. mode: one of MODES."""
    i = np.arange(out, dtype=np.float32)
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        return np.zeros(out, np.float32) if out == 1 else (i * np.float32(size - 1)) / np.float32(out - 1)
    if mode == "pytorch_half_pixel" and out == 1:
        return np.zeros(1, np.float32)
    if mode == "half_pixel_symmetric":  # if the output size is rounded down, the centre stays in place
        offset = np.float32(size / 2) * (np.float32(1) - np.float32(out) / (scale * np.float32(size)))
        wide = np.float64(offset) + (i.astype(np.float64) + 0.5) / np.float64(scale) - 0.5
        return wide.astype(np.float32)
    return (i + np.float32(0.5)) / scale - np.float32(0.5)


def resize_channels_last(r: Rewriter, node: onnx.NodeProto, out: Dims, scales: Array | None) -> None:
    """Writes a linear Resize of (N, H, W, C) of 8 bits as sums in int32: the steps of onnxruntime's kernel, whose weights
    have 10 fraction bits and whose quotient is truncated. scales: those that the node states, None if it states sizes."""
    shape, kind = r.dims(node.input[0]), r.kind(node.input[0])
    mode = attribute(node, "coordinate_transformation_mode", b"half_pixel").decode(errors="replace")
    if mode not in MODES:
        raise r.refusal(f"coordinate mode {mode} is not supported")
    pixels = r.step("Cast", [node.input[0]], "pixels", to=onnx.TensorProto.INT32)
    rows, columns = (
        _neighbours(mode, shape[a], out[a], np.float32(out[a]) / np.float32(shape[a]) if scales is None else scales[a])
        for a in (1, 2)
    )
    total = ""
    for row, row_weight in rows:
        lines = r.step("Gather", [pixels, r.ints("rows", row)], "lines", axis=1)
        for column, column_weight in columns:
            values = r.step("Gather", [lines, r.ints("columns", column)], "neighbour", axis=2)
            weights = np.multiply.outer(row_weight, column_weight)[..., None].astype(np.int32)
            term = r.step("Mul", [values, r.constant("weights", weights)], "term")
            total = r.step("Add", [total, term], "sum") if total else term
    quotient = r.step("Div", [total, r.constant("one", np.int32(1 << 2 * FRACTION_BITS))], "quotient")
    r.node("Cast", [quotient], node.output[0], to=kind)


def _neighbours(mode: str, size: int, out: int, scale: np.float32) -> list[tuple[Array, Array]]:
    """Returns positions and weights, both int64, of the neighbours before and behind each source coordinate."""
    place = np.clip(source_coordinates(mode, size, out, np.float32(scale)), 0, np.float32(size - 1))
    before = place.astype(np.int64)
    behind = np.minimum(before + 1, size - 1)
    one = np.float32(1 << FRACTION_BITS)
    share = ((place - before.astype(np.float32)) * one).astype(np.int64)
    share = np.where(before == behind, int(one) // 2, share)
    return [(before, int(one) - share), (behind, share)]
