"""AffineGrid as a product of a constant grid and the matrices."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute

MAX_POINTS = 1 << 24  # of a grid, which becomes a constant of model.bin


def affine_grid(r: Rewriter, node: onnx.NodeProto) -> None:
    size = r.value(node.input[1])
    if size is None:
        raise r.refusal("its size is computed at run time; only a constant can be compiled")
    spatial, corners = [int(s) for s in size[2:]], attribute(node, "align_corners", 0)
    if min(spatial, default=0) < 1 or prod(spatial) > MAX_POINTS:
        raise r.refusal(f"a grid of {spatial} is not supported; wanted 1 to {MAX_POINTS} places")
    if corners and 1 in spatial:
        raise r.refusal(f"align_corners with a dim of one element, {spatial}, is not supported")
    steps = [np.linspace(-1, 1, s) if corners else (2 * np.arange(s) + 1) / s - 1 for s in spatial]
    axes = np.meshgrid(*steps, indexing="ij")[::-1]  # x first
    places = np.stack([*axes, np.ones(spatial)], -1).reshape(-1, len(spatial) + 1).astype(np.float32)
    turned = r.step("Transpose", [node.input[0]], "theta", perm=[0, 2, 1])
    rows = r.step("MatMul", [r.constant("places", places), turned], "rows")
    r.node("Reshape", [rows, r.ints("dims", r.dims(node.output[0]))], node.output[0])


REPLACED = {("", "AffineGrid"): affine_grid}
