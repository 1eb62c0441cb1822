"""Writes a DeformConv as gathered pixels, each tap four neighbours multiplied by their weights, and a Conv of one tap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute, input_name

MAX_ELEMENTS = 1 << 25  # that all taps read
MAX_PIXELS = 1 << 24  # float32 represents integers exactly up to this
INT64 = onnx.TensorProto.INT64
Corner = tuple[str, str]  # positions and weights
Pair = tuple[int, int]  # of rows, of columns


@dataclass(frozen=True, slots=True)
class _Form:
    """The sizes and attributes of a DeformConv. planes: groups of offsets of all images. channels: of such a group."""

    planes: int
    channels: int
    size: Pair
    kernel: Pair
    out: Pair
    strides: Pair
    pads: Pair
    dilations: Pair

    def taps(self) -> int:
        """Returns the number of taps of the kernel."""
        return self.kernel[0] * self.kernel[1]

    def factor_dims(self) -> list[int]:
        """Returns the dims of one factor for each tap at every place of the output, the same in all channels."""
        return [self.planes, self.taps(), 1, *self.out, 1]


def deform_conv(r: Rewriter, node: onnx.NodeProto) -> None:
    form, weights, out = _form(r, node), r.dims(node.input[1]), r.dims(node.output[0])
    columns = _columns(r, node, form)
    if mask := input_name(node, 4):
        factors = r.step("Reshape", [mask, r.ints("mask_dims", form.factor_dims())], "mask")
        columns = r.step("Mul", [columns, factors], "masked")
    columns = r.step("Transpose", [columns], "channels_first", perm=[0, 5, 1, 2, 3, 4])
    dims = [out[0], r.dims(node.input[0])[1] * form.taps(), *form.out]
    columns = r.step("Reshape", [columns, r.ints("columns_dims", dims)], "columns")
    flat = r.ints("weight_dims", [weights[0], weights[1] * form.taps(), 1, 1])
    kernel = r.step("Reshape", [node.input[1], flat], "weight")
    inputs = [columns, kernel, input_name(node, 3)]
    r.node("Conv", inputs, node.output[0], group=attribute(node, "group", 1))


def _form(r: Rewriter, node: onnx.NodeProto) -> _Form:
    """Returns the form of the node. Raises UnsupportedError if it has no decomposition."""
    shape, weights, out = r.dims(node.input[0]), r.dims(node.input[1]), r.dims(node.output[0])
    if len(shape) != 4 or len(weights) != 4 or len(out) != 4:
        raise r.refusal(f"images {list(shape)} are not supported; those with two spatial dims are")
    if any(r.kind(name) != onnx.TensorProto.FLOAT for name in filter(None, node.input)):
        raise r.refusal("other types than float32 are not supported; export it as float32")
    groups = attribute(node, "offset_group", 1)
    if groups < 1 or shape[1] % groups:
        raise r.refusal(f"offset_group={groups} does not divide the {shape[1]} channels; wanted one that does")
    strides, dilations = (attribute(node, name, [1, 1]) for name in ("strides", "dilations"))
    pads, kernel = attribute(node, "pads", [0] * 4), weights[2:]
    if len(strides) != 2 or len(dilations) != 2 or len(pads) != 4:
        raise r.refusal("wanted two strides, two dilations and four pads")
    planes, channels, size = shape[0] * groups, shape[1] // groups, (shape[2], shape[3])
    form = _Form(planes, channels, size, kernel, out[2:], tuple(strides), tuple(pads[:2]), tuple(dilations))
    if max(size[0] * size[1], planes, form.taps() * max(form.out)) > MAX_PIXELS:
        raise r.refusal(
            "more than 2^24 pixels of an image, images, or places of all taps along a dim are not supported"
        )
    if planes * channels * form.taps() * out[2] * out[3] > MAX_ELEMENTS:
        raise r.refusal("taps that read more than 2^25 elements together are not supported")
    _check_taps(r, node, form, groups)
    return form


def _check_taps(r: Rewriter, node: onnx.NodeProto, form: _Form, groups: int) -> None:
    """Raises UnsupportedError if offsets or mask do not have an element for each tap at every place of the output."""
    for name, count in ((node.input[2], 2), (input_name(node, 4), 1)):
        wanted = (form.planes // groups, groups * form.taps() * count, *form.out)
        if name and r.dims(name) != wanted:
            raise r.refusal(f"{name!r} has dims {list(r.dims(name))}; wanted {list(wanted)}")


def _columns(r: Rewriter, node: onnx.NodeProto, form: _Form) -> str:
    """Returns what each tap reads, [planes, taps, 1, height, width, channels]."""
    planes = r.ints("planes_dims", [form.planes, form.channels, form.size[0] * form.size[1]])
    pixels = r.step("Reshape", [node.input[0], planes], "planes")
    pixels = r.step("Transpose", [pixels], "pixels_first", perm=[0, 2, 1])
    pixels = r.step("Reshape", [pixels, r.ints("rows_dims", [-1, form.channels])], "pixel_rows")
    terms = []
    for at, weight in _corners(r, node, form):
        weight = r.step("Reshape", [weight, r.ints("weights_dims", form.factor_dims())], "weights")
        terms.append(r.step("Mul", [weight, r.step("Gather", [pixels, at], "neighbour")], "term"))
    return reduce(lambda a, b: r.step("Add", [a, b], "sum_of_neighbours"), terms)


def _corners(r: Rewriter, node: onnx.NodeProto, form: _Form) -> list[Corner]:
    """Returns position and weight of the four neighbours of every tap, row by row."""
    dims = [form.planes, form.taps(), 2, *form.out]
    offsets = r.step("Reshape", [node.input[2], r.ints("offsets_dims", dims)], "offsets")
    parts, cuts = [r.fresh("row_offset"), r.fresh("column_offset")], [offsets, r.ints("sizes", [1, 1])]
    r.nodes.append(onnx.helper.make_node("Split", cuts, parts, f"{parts[0]}/Split", axis=2))
    first = np.arange(form.planes).reshape(-1, 1, 1, 1, 1) * form.size[0] * form.size[1]
    places = [r.step("Add", [_grid(r, form, dim), parts[dim]], "place") for dim in (0, 1)]
    rows, columns = (_neighbours(r, places[dim], form, dim) for dim in (0, 1))
    plane = r.ints("first_of_planes", first)
    rows = [(r.step("Add", [_index(r, at, form.size[1]), plane], "row"), weight) for at, weight in rows]
    columns = [(_index(r, at, 1), weight) for at, weight in columns]
    return [_pair(r, row, column) for row in rows for column in columns]


def _pair(r: Rewriter, row: Corner, column: Corner) -> Corner:
    """Returns the position and the weight where rows and columns meet."""
    weight = r.step("Mul", [row[1], column[1]], "weight_of_neighbour")
    return r.step("Add", [row[0], column[0]], "position"), weight


def _grid(r: Rewriter, form: _Form, dim: int) -> str:
    """Returns where the taps are without an offset, in pixels along this dim: [taps, 1, height or 1, width or 1]."""
    taps = np.indices(form.kernel)[dim].reshape(-1, 1) * form.dilations[dim] - form.pads[dim]
    places = taps + np.arange(form.out[dim]) * form.strides[dim]
    dims = (-1, 1, *((form.out[0], 1) if dim == 0 else (1, form.out[1])))
    return r.constant("grid", places.reshape(dims).astype(np.float32))


def _neighbours(r: Rewriter, place: str, form: _Form, dim: int) -> list[Corner]:
    """Returns position and weight of the two neighbours of every tap along this dim. Those outside have weight 0, and
    so have both of a tap that is one pixel outside or more, or NaN."""
    size = form.size[dim]
    zero, one, last, before_all, behind_all = (
        r.constant(what, np.float32(value))
        for what, value in (("zero", 0), ("one", 1), ("last", size - 1), ("before_all", -1), ("behind_all", size))
    )
    close = [r.step("Greater", [place, before_all], "is_behind"), r.step("Less", [place, behind_all], "is_before")]
    place = r.step("Where", [r.step("And", close, "is_close"), place, behind_all], "place_nearby")
    before = r.step("Floor", [place], "before")
    behind = r.step("Add", [before, one], "behind")
    share = r.step("Sub", [place, before], "share")
    corners = []
    for at, weight in ((before, r.step("Sub", [one, share], "other_share")), (behind, share)):
        pixel = r.step("Clip", [at, zero, last], "pixel")
        hit = r.step("Cast", [r.step("Equal", [pixel, at], "is_inside")], "inside", to=onnx.TensorProto.FLOAT)
        corners.append((pixel, r.step("Mul", [weight, hit], "weight")))
    return corners


def _index(r: Rewriter, at: str, step: int) -> str:
    """Returns these positions, multiplied by the step, as integers."""
    moved = at if step == 1 else r.step("Mul", [at, r.constant("step", np.float32(step))], "first_of_row")
    return r.step("Cast", [moved], "index", to=INT64)


REPLACED = {("", "DeformConv"): deform_conv}
