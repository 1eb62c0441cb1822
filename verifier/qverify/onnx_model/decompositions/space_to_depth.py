"""Writes SpaceToDepth as Reshape, Transpose and Reshape."""

from __future__ import annotations

import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute


def space_to_depth(r: Rewriter, node: onnx.NodeProto) -> None:
    n, c, height, width = r.dims(node.input[0])
    b = attribute(node, "blocksize", 1)
    blocks = [n, c, height // b, b, width // b, b]
    apart = r.step("Reshape", [node.input[0], r.ints("blocks_dims", blocks)], "blocks")
    deep = r.step("Transpose", [apart], "blocks_first", perm=[0, 3, 5, 1, 2, 4])
    r.node("Reshape", [deep, r.ints("dims", r.dims(node.output[0]))], node.output[0])


REPLACED = {("", "SpaceToDepth"): space_to_depth}
