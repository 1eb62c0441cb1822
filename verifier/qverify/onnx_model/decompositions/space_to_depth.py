"""SpaceToDepth as a movement of three steps."""

from __future__ import annotations

import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute


def space_to_depth(r: Rewriter, node: onnx.NodeProto) -> None:
    """Every square of pixels becomes channels, its place in the square first."""
    n, c, height, width = r.dims(node.input[0])
    size = attribute(node, "blocksize", 1)
    squares = r.ints("squares_dims", [n, c, height // size, size, width // size, size])
    cut = r.step("Reshape", [node.input[0], squares], "squares")
    turned = r.step("Transpose", [cut], "places_first", perm=[0, 3, 5, 1, 2, 4])
    r.node("Reshape", [turned, r.ints("depth_dims", r.dims(node.output[0]))], node.output[0])


REPLACED = {("", "SpaceToDepth"): space_to_depth}
