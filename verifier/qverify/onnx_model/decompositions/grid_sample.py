"""Writes a bilinear GridSample of images as four gathered neighbours, each multiplied by its weight."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute

MAX_PIXELS = 1 << 24  # float32 represents integers exactly up to this


def grid_sample(r: Rewriter, node: onnx.NodeProto) -> None:
    mode, padding = attribute(node, "mode", b"linear"), attribute(node, "padding_mode", b"zeros")
    shape, out = r.dims(node.input[0]), r.dims(node.output[0])
    if mode not in (b"linear", b"bilinear") or padding not in (b"zeros", b"border") or len(shape) != 4:
        raise r.refusal(
            f"{mode.decode(errors='replace')} with {padding.decode(errors='replace')} over {len(shape) - 2} dims is not supported; linear with zeros or border over two is"
        )
    n, c, height, width = shape
    if height * width > MAX_PIXELS or any(r.kind(name) != onnx.TensorProto.FLOAT for name in node.input):
        raise r.refusal("images of more than 2^24 pixels, and other types than float32, are not supported")
    points = out[2] * out[3]
    parts = [r.fresh("x"), r.fresh("y")]
    cuts = [node.input[1], r.ints("sizes", [1, 1])]
    r.nodes.append(onnx.helper.make_node("Split", cuts, parts, f"{parts[0]}/Split", axis=-1))
    lines = [r.step("Reshape", [part, r.ints("points_dims", [n, 1, points])], "points") for part in parts]
    (columns, rows) = (
        _neighbours(r, line, size, padding == b"border", attribute(node, "align_corners", 0))
        for line, size in zip(lines, (width, height), strict=True)
    )
    pixels = r.step("Reshape", [node.input[0], r.ints("pixels_dims", [n, c, height * width])], "pixels")
    terms = []
    for row, weight_of_row in rows:
        first = r.step("Mul", [row, r.constant("width", np.float32(width))], "first_of_row")
        for column, weight in columns:
            at = r.step("Cast", [r.step("Add", [first, column], "place")], "index", to=onnx.TensorProto.INT64)
            every = r.step("Expand", [at, r.ints("index_dims", [n, c, points])], "index_of_channels")
            value = r.step("GatherElements", [pixels, every], "neighbour", axis=2)
            terms.append(r.step("Mul", [value, r.step("Mul", [weight_of_row, weight], "weight")], "term"))
    above, below = (r.step("Add", terms[at : at + 2], "sum_of_row") for at in (0, 2))
    r.node("Reshape", [r.step("Add", [above, below], "sum"), r.ints("dims", out)], node.output[0])


def _neighbours(r: Rewriter, line: str, size: int, border: bool, corners: int) -> list[tuple[str, str]]:
    """Returns position and weight of the two neighbours of every point along a dim of this size; neighbours outside
    have weight 0."""
    half = r.constant("half_size", np.float32((size - 1 if corners else size) / 2))
    middle, zero = r.constant("middle", np.float32((size - 1) / 2)), r.constant("zero", np.float32(0))
    last, one = r.constant("last", np.float32(size - 1)), r.constant("one", np.float32(1))
    place = r.step("Add", [r.step("Mul", [line, half], "from_middle"), middle], "place")
    if border:
        place = r.step("Clip", [place, zero, last], "place_inside")
    before = r.step("Floor", [place], "before")
    share = r.step("Sub", [place, before], "share")
    neighbours = []
    for at, weight in (
        (before, r.step("Sub", [one, share], "other_share")),
        (r.step("Add", [before, one], "behind"), share),
    ):
        inside = r.step("Clip", [at, zero, last], "pixel")
        if not border:
            hit = r.step("Cast", [r.step("Equal", [inside, at], "is_inside")], "inside", to=onnx.TensorProto.FLOAT)
            weight = r.step("Mul", [weight, hit], "weight_inside")
        neighbours.append((inside, weight))
    return neighbours


REPLACED = {("", "GridSample"): grid_sample}
