"""Writes a Col2Im (torch's Fold) as a sum of the taps, each spread over the image."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute

MAX_TAPS = 256  # of a block; each becomes some nodes
MAX_ELEMENTS = 1 << 25  # of the images


def col2im(r: Rewriter, node: onnx.NodeProto) -> None:
    """Places each tap's columns on the image with its pads by Gather, as far as they overlap it, and adds them in the order
    of onnxruntime: tap by tap."""
    image, block = (r.value(name) for name in node.input[1:3])
    if image is None or block is None:
        raise r.refusal("its sizes are computed at run time; only constants can be compiled")
    if r.kind(node.input[0]) != onnx.TensorProto.FLOAT or prod(int(b) for b in block) > MAX_TAPS:
        raise r.refusal(f"other types than float32, and blocks of more than {MAX_TAPS} elements, are not supported")
    size, kernel = [int(n) for n in image], [int(n) for n in block]
    batch, rows, columns = r.dims(node.input[0])
    if min(*size, *kernel) < 1 or batch * rows * prod(size) > MAX_ELEMENTS * prod(kernel):
        raise r.refusal(
            f"an image of {size} from blocks of {kernel}; wanted sizes of 1 or more, and at most 2^25 elements"
        )
    channels, taps = rows // prod(kernel), prod(kernel)
    parts = r.step("Reshape", [node.input[0], r.ints("taps_dims", [batch, channels, taps, columns])], "taps")
    nothing = r.constant("nothing", np.zeros((batch, channels, taps, 1), np.float32))
    parts = r.step("Concat", [parts, nothing], "taps_padded", axis=3)  # its last column is 0
    total = ""
    for tap, at in enumerate(np.ndindex(*kernel)):
        spread = r.step("Gather", [parts, r.ints("tap", tap)], "tap_columns", axis=2)
        spread = r.step("Gather", [spread, r.ints("columns", _columns(r, node, size, kernel, at))], "spread", axis=2)
        total = r.step("Add", [total, spread], "sum") if total else spread
    r.node("Reshape", [total, r.ints("dims", [batch, channels, *size])], node.output[0])


def _columns(r: Rewriter, node: onnx.NodeProto, size: list[int], kernel: list[int], tap: tuple[int, ...]) -> np.ndarray:
    """Returns, for each pixel of the image, the column of this tap that lies on it, or the number of columns (one column of
    zeros follows the last) if none does."""
    rank = len(size)
    strides, dilations = (attribute(node, n, [1] * rank) for n in ("strides", "dilations"))
    pads = attribute(node, "pads", [0] * 2 * rank)
    count, number, valid = 1, np.zeros(size, np.int64), np.ones(size, np.bool_)
    for axis in range(rank):
        blocks = (size[axis] + pads[axis] + pads[axis + rank] - dilations[axis] * (kernel[axis] - 1) - 1) // strides[
            axis
        ] + 1
        start = np.arange(size[axis]) + pads[axis] - tap[axis] * dilations[axis]
        inside = (start >= 0) & (start % strides[axis] == 0) & (start // strides[axis] < blocks)
        shape = [-1 if a == axis else 1 for a in range(rank)]
        number = number * blocks + np.where(inside, start // strides[axis], 0).reshape(shape)
        valid = valid & inside.reshape(shape)
        count *= blocks
    if count != r.dims(node.input[0])[2]:
        raise r.refusal(f"{r.dims(node.input[0])[2]} columns for {count} blocks of the image")
    return np.where(valid, number, count).reshape(-1)


REPLACED = {("", "Col2Im"): col2im}
