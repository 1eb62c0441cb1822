"""Writes a RoiAlign as gathered pixels: each sample of a region is four neighbours, multiplied by their weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute

MAX_PIXELS = 1 << 24  # float32 represents integers exactly up to this
MAX_ELEMENTS = 1 << 25  # of all samples of all regions
MAX_SAMPLES = 8  # of a bin along each dim; every sample becomes a dozen nodes
HALF_PIXEL_SINCE = 16  # the opset from which on half_pixel is the default
SPLIT_BY_INPUT_SINCE = 13  # before, its sizes are an attribute
INT64 = onnx.TensorProto.INT64
Corner = tuple[str, str]  # positions and weights
Pair = tuple[int, int]  # of rows, of columns


@dataclass(frozen=True, slots=True)
class _Form:
    """The sizes and attributes of a RoiAlign.

    size: height and width of an image. bins: number of bins of a region along each dim. samples: number of samples of a
    bin along each dim. joined_by: the operator that joins the samples."""

    images: int
    channels: int
    size: Pair
    regions: int
    bins: Pair
    samples: int
    scale: float
    half_pixel: bool
    joined_by: str

    def grid(self) -> Pair:
        """Returns how many samples a bin has, and how many bins all regions have."""
        return self.samples * self.samples, self.regions * self.bins[0] * self.bins[1]


def roi_align(r: Rewriter, node: onnx.NodeProto) -> None:
    form = _form(r, node)
    rows = r.step("Transpose", [node.input[0]], "pixels_first", perm=[0, 2, 3, 1])
    rows = r.step("Reshape", [rows, r.ints("rows_dims", [-1, form.channels])], "pixel_rows")
    samples = [_sample(r, rows, corners, form, at) for at, corners in enumerate(_corners(r, node, form))]
    result = reduce(lambda a, b: r.step(form.joined_by, [a, b], "joined"), samples)
    if form.joined_by == "Add":
        result = r.step("Div", [result, r.constant("count", np.float32(form.grid()[0]))], "mean")
    dims = [form.regions, form.bins[0] * form.bins[1], form.channels]
    result = r.step("Reshape", [result, r.ints("bins_dims", dims)], "bins")
    result = r.step("Transpose", [result], "channels_first", perm=[0, 2, 1])
    r.node("Reshape", [result, r.ints("dims", r.dims(node.output[0]))], node.output[0])


def _form(r: Rewriter, node: onnx.NodeProto) -> _Form:
    """Returns the form of the node. Raises UnsupportedError if it has no decomposition."""
    mode, samples = attribute(node, "mode", b"avg"), attribute(node, "sampling_ratio", 0)
    default = b"half_pixel" if r.opset >= HALF_PIXEL_SINCE else b"output_half_pixel"
    pixels = attribute(node, "coordinate_transformation_mode", default)
    if mode not in (b"avg", b"max"):
        raise r.refusal(f"mode={mode.decode(errors='replace')} is not supported; avg and max are")
    if pixels not in (b"half_pixel", b"output_half_pixel"):
        text = pixels.decode(errors="replace")
        raise r.refusal(f"coordinate_transformation_mode={text} is not supported; half_pixel and output_half_pixel are")
    if samples == 0:
        raise r.refusal(
            "with sampling_ratio=0 the number of samples depends on the regions. "
            f"Export it with a sampling_ratio of 1 to {MAX_SAMPLES}"
        )
    if not 1 <= samples <= MAX_SAMPLES:
        raise r.refusal(f"sampling_ratio={samples} is not supported; 1 to {MAX_SAMPLES} are")
    shape, regions, out = r.dims(node.input[0]), r.dims(node.input[1]), r.dims(node.output[0])
    if len(shape) != 4 or len(regions) != 2 or regions[1] != 4 or r.dims(node.input[2]) != regions[:1]:
        raise r.refusal(f"images {list(shape)} with regions {list(regions)} are not supported; rank 4 with (N, 4) are")
    if max(shape[0], shape[2] * shape[3], *out[2:]) > MAX_PIXELS:
        raise r.refusal("more than 2^24 images, pixels of an image, or bins along a dim are not supported")
    if prod(out) * samples * samples > MAX_ELEMENTS:
        raise r.refusal("more than 2^25 samples of all regions and channels are not supported; keep fewer regions")
    if any(r.kind(name) != onnx.TensorProto.FLOAT for name in node.input[:2]):
        raise r.refusal("other types than float32 are not supported; export it as float32")
    scale = attribute(node, "spatial_scale", 1.0)
    joined_by = "Max" if mode == b"max" else "Add"
    size, bins = (shape[2], shape[3]), (out[2], out[3])
    return _Form(shape[0], shape[1], size, regions[0], bins, samples, scale, pixels == b"half_pixel", joined_by)


def _corners(r: Rewriter, node: onnx.NodeProto, form: _Form) -> list[list[Corner]]:
    """Returns, for each sample of a bin, positions [1, bins] and weights [1, bins, 1] of its four neighbours in all
    bins, row by row."""
    starts, sizes = _regions(r, node.input[1], form)
    places = [_places(r, starts[1 - dim], sizes[1 - dim], form, dim) for dim in (0, 1)]  # x comes before y
    rows, columns = (_neighbours(r, place, size) for place, size in zip(places, form.size, strict=True))
    first = _first_pixels(r, node.input[2], form)
    rows = [(r.step("Add", [first, _index(r, at, form.size[1])], "row"), weight) for at, weight in rows]
    columns = [(_index(r, at, 1), weight) for at, weight in columns]
    every = [_pair(r, row, column, form) for row in rows for column in columns]
    return [list(corners) for corners in zip(*every, strict=True)]


def _regions(r: Rewriter, regions: str, form: _Form) -> tuple[list[str], list[str]]:
    """Returns the first x and y, and the width and height [regions, 1] of the regions, in pixels of the image."""
    scaled = r.step("Mul", [regions, r.constant("scale", np.float32(form.scale))], "scaled")
    if form.half_pixel:
        scaled = r.step("Sub", [scaled, r.constant("half", np.float32(0.5))], "shifted")
    start, end = _split(r, scaled, [2, 2], 1, "ends")
    size = r.step("Sub", [end, start], "size")
    if not form.half_pixel:
        size = r.step("Max", [size, r.constant("one", np.float32(1))], "size_of_at_least_1")
    return _split(r, start, [1, 1], 1, "start"), _split(r, size, [1, 1], 1, "size_of_dim")


def _first_pixels(r: Rewriter, images: str, form: _Form) -> str:
    """Returns the row of the first pixel of each region's image, [regions, 1, 1]."""
    table = r.ints("first_of_images", np.arange(form.images) * form.size[0] * form.size[1])
    first = r.step("Gather", [table, images], "first_of_region")
    return r.step("Reshape", [first, r.ints("first_dims", [form.regions, 1, 1])], "first_pixel")


def _places(r: Rewriter, start: str, size: str, form: _Form, dim: int) -> str:
    """Returns the coordinates of the samples along a dim, as [sample row, sample column, region, bin row, bin column].
    Where one lies just at a limit, the last bit decides whether it counts: the order of onnxruntime's steps is followed.
    """
    bins, samples = form.bins[dim], form.samples
    each = r.step("Div", [size, r.constant("bins", np.float32(bins))], "size_of_bin")
    before = r.step("Mul", [r.constant("bin", np.arange(bins, dtype=np.float32)), each], "before_bin")
    first = r.step("Add", [start, before], "start_of_bin")
    steps = np.arange(samples, dtype=np.float32).reshape(-1, 1, 1) + np.float32(0.5)
    within = r.step("Mul", [r.constant("steps", steps), each], "steps_in_bin")
    within = r.step("Div", [within, r.constant("samples", np.float32(samples))], "within_bin")
    dims = [samples, 1, form.regions, bins, 1] if dim == 0 else [1, samples, form.regions, 1, bins]
    return r.step("Reshape", [r.step("Add", [first, within], "places"), r.ints("places_dims", dims)], "place")


def _neighbours(r: Rewriter, place: str, size: int) -> list[Corner]:
    """Returns position and weight of the two neighbours of every sample along a dim of this size. Samples below -1 or
    beyond the size have weight 0, as has NaN; those up to 1 outside lie on the first or last pixel."""
    zero, one, last = (r.constant(w, np.float32(v)) for w, v in (("zero", 0), ("one", 1), ("last", size - 1)))
    low, high = np.nextafter(np.float32(-1), np.float32(-2)), np.nextafter(np.float32(size), np.float32(np.inf))
    above = r.step("Greater", [place, r.constant("below_all", low)], "is_above")
    below = r.step("Less", [place, r.constant("beyond_all", high)], "is_below")
    inside = r.step("And", [above, below], "is_inside")
    counted = r.step("Cast", [inside], "inside", to=onnx.TensorProto.FLOAT)
    place = r.step("Where", [inside, place, zero], "place_inside")
    place = r.step("Min", [r.step("Max", [place, zero], "place_from_0"), last], "place_in_image")
    before = r.step("Floor", [place], "before")
    behind = r.step("Min", [r.step("Add", [before, one], "next"), last], "behind")
    share = r.step("Sub", [place, before], "share")
    other = r.step("Sub", [one, share], "other_share")
    return [(before, r.step("Mul", [other, counted], "weight")), (behind, r.step("Mul", [share, counted], "weight"))]


def _index(r: Rewriter, at: str, step: int) -> str:
    """Returns these positions, multiplied by the step, as integers."""
    moved = at if step == 1 else r.step("Mul", [at, r.constant("step", np.float32(step))], "first_of_row")
    return r.step("Cast", [moved], "index", to=INT64)


def _pair(r: Rewriter, row: Corner, column: Corner, form: _Form) -> list[Corner]:
    """Returns the position and the weight where rows and columns meet, of each sample of a bin."""
    samples, bins = form.grid()
    index = r.step("Add", [row[0], column[0]], "position")
    index = r.step("Reshape", [index, r.ints("index_dims", [samples, bins])], "positions")
    weight = r.step("Mul", [row[1], column[1]], "weight_of_neighbour")
    weight = r.step("Reshape", [weight, r.ints("weight_dims", [samples, bins, 1])], "weights")
    sizes = [1] * samples
    places, weights = _split(r, index, sizes, 0, "neighbour"), _split(r, weight, sizes, 0, "weight")
    return list(zip(places, weights, strict=True))


def _sample(r: Rewriter, rows: str, corners: list[Corner], form: _Form, at: int) -> str:
    """Returns sample number `at` of all bins, [1, bins, channels]: the sum of its weighted neighbours, or with mode=max
    the largest of them, as onnxruntime computes it."""
    terms = [
        r.step("Mul", [weight, r.step("Gather", [rows, place], f"pixel_{at}")], f"term_{at}")
        for place, weight in corners
    ]
    return reduce(lambda a, b: r.step(form.joined_by, [a, b], f"sample_{at}"), terms)


def _split(r: Rewriter, name: str, sizes: list[int], axis: int, what: str) -> list[str]:
    """Returns the parts, of these sizes along the axis, of a tensor."""
    if len(sizes) == 1:
        return [name]
    parts, by_input = [r.fresh(f"{what}_{at}") for at in range(len(sizes))], r.opset >= SPLIT_BY_INPUT_SINCE
    cuts = [name, r.ints("sizes", sizes)] if by_input else [name]
    more: dict[str, Any] = {} if by_input else {"split": sizes}
    r.nodes.append(onnx.helper.make_node("Split", cuts, parts, f"{parts[0]}/Split", axis=axis, **more))
    return parts


REPLACED = {("", "RoiAlign"): roi_align}
