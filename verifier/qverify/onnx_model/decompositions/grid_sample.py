"""Writes a GridSample of images as gathered pixels: the nearest one, or four neighbours, each multiplied by its weight."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute

MAX_PIXELS = 1 << 24  # float32 represents integers exactly up to this
MODES = (b"linear", b"bilinear", b"nearest")


def grid_sample(r: Rewriter, node: onnx.NodeProto) -> None:
    mode, padding = attribute(node, "mode", b"linear"), attribute(node, "padding_mode", b"zeros")
    shape, out = r.dims(node.input[0]), r.dims(node.output[0])
    if mode not in MODES or padding not in (b"zeros", b"border") or len(shape) != 4:
        raise r.refusal(
            f"{mode.decode(errors='replace')} with {padding.decode(errors='replace')} over {len(shape) - 2} dims is not supported; linear and nearest with zeros or border over two are"
        )
    n, _, height, width = shape
    if height * width > MAX_PIXELS or any(r.kind(name) != onnx.TensorProto.FLOAT for name in node.input):
        raise r.refusal("images of more than 2^24 pixels, and other types than float32, are not supported")
    points = out[2] * out[3]
    parts = [r.fresh("x"), r.fresh("y")]
    cuts = [node.input[1], r.ints("sizes", [1, 1])]
    r.nodes.append(onnx.helper.make_node("Split", cuts, parts, f"{parts[0]}/Split", axis=-1))
    lines = [r.step("Reshape", [part, r.ints("points_dims", [n, 1, points])], "points") for part in parts]
    nearest, border, corners = mode == b"nearest", padding == b"border", attribute(node, "align_corners", 0)
    column, row = _places(r, lines[0], width, nearest, corners), _places(r, lines[1], height, nearest, corners)
    pixels = r.step("Reshape", [node.input[0], r.ints("pixels_dims", [n, shape[1], height * width])], "pixels")
    image = _Image(r, pixels, shape, points)
    sampled = image.nearest(column, row, border) if nearest else image.linear(column, row, border)
    r.node("Reshape", [sampled, r.ints("dims", out)], node.output[0])


def _places(r: Rewriter, line: str, size: int, nearest: bool, corners: int) -> str:
    """Returns the coordinates of the points along a dim of this size, in pixels. Between two pixels the last bit decides
    which is the nearest; there the order of onnxruntime's steps is followed."""
    if not nearest:
        half = r.constant("half_size", np.float32((size - 1 if corners else size) / 2))
        middle = r.constant("middle", np.float32((size - 1) / 2))
        return r.step("Add", [r.step("Mul", [line, half], "from_middle"), middle], "place")
    shifted = r.step("Add", [line, r.constant("one", np.float32(1))], "shifted")
    if corners:
        share = r.step("Mul", [shifted, r.constant("half", np.float32(0.5))], "share_of_size")
        return r.step("Mul", [share, r.constant("last", np.float32(size - 1))], "place")
    doubled = r.step("Mul", [shifted, r.constant("size", np.float32(size))], "doubled")
    doubled = r.step("Sub", [doubled, r.constant("one", np.float32(1))], "doubled_place")
    return r.step("Mul", [doubled, r.constant("half", np.float32(0.5))], "place")


def _clip(r: Rewriter, place: str, size: int, what: str) -> str:
    """Returns the places limited to those of the pixels."""
    return r.step("Clip", [place, r.constant("zero", np.float32(0)), r.constant("last", np.float32(size - 1))], what)


class _Image:
    """The image [N, C, H * W] that is sampled at a number of points."""

    def __init__(self, r: Rewriter, pixels: str, shape: tuple[int, ...], points: int):
        self._r, self._pixels, self._points = r, pixels, points
        self._n, self._c, self._height, self._width = shape

    def nearest(self, column: str, row: str, border: bool) -> str:
        """Returns the pixels [N, C, points] nearest to the points; halves are rounded to the even one. Outside, without
        a border, they are 0."""
        r, pixels, inside = self._r, list[str](), list[str]()
        for place, size in ((row, self._height), (column, self._width)):
            rounded = r.step("Round", [place], "rounded")
            pixels.append(_clip(r, rounded, size, "pixel"))
            inside.append(r.step("Equal", [pixels[-1], rounded], "is_inside"))
        value = self._at(*pixels)
        if border:
            return value
        return r.step("Where", [r.step("And", inside, "inside"), value, r.constant("outside", np.float32(0))], "sample")

    def linear(self, column: str, row: str, border: bool) -> str:
        """Returns the sums [N, C, points] of the four neighbours of the points, multiplied by their weights."""
        r, rows = self._r, []
        columns = _neighbours(r, column, self._width, border)
        for row_pixel, row_weight in _neighbours(r, row, self._height, border):
            weights = [r.step("Mul", [row_weight, weight], "weight") for _, weight in columns]
            values = [self._at(row_pixel, pixel) for pixel, _ in columns]
            terms = [r.step("Mul", list(term), "term") for term in zip(values, weights, strict=True)]
            rows.append(r.step("Add", terms, "sum_of_row"))
        return r.step("Add", rows, "sum")

    def _at(self, row: str, column: str) -> str:
        """Returns the pixels [N, C, points] at these rows and columns."""
        r = self._r
        first = r.step("Mul", [row, r.constant("width", np.float32(self._width))], "first_of_row")
        at = r.step("Cast", [r.step("Add", [first, column], "place")], "index", to=onnx.TensorProto.INT64)
        every = r.step("Expand", [at, r.ints("index_dims", [self._n, self._c, self._points])], "index_of_channels")
        return r.step("GatherElements", [self._pixels, every], "neighbour", axis=2)


def _neighbours(r: Rewriter, place: str, size: int, border: bool) -> list[tuple[str, str]]:
    """Returns position and weight of the two neighbours of every point along a dim of this size; neighbours outside
    have weight 0."""
    one = r.constant("one", np.float32(1))
    place = _clip(r, place, size, "place_inside") if border else place
    before = r.step("Floor", [place], "before")
    share = r.step("Sub", [place, before], "share")
    neighbours = []
    for at, weight in (
        (before, r.step("Sub", [one, share], "other_share")),
        (r.step("Add", [before, one], "behind"), share),
    ):
        inside = _clip(r, at, size, "pixel")
        if not border:
            hit = r.step("Cast", [r.step("Equal", [inside, at], "is_inside")], "inside", to=onnx.TensorProto.FLOAT)
            weight = r.step("Mul", [weight, hit], "weight_inside")
        neighbours.append((inside, weight))
    return neighbours


REPLACED = {(domain, "GridSample"): grid_sample for domain in ("", MICROSOFT)}
