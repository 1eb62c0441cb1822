"""Writes the Indices of a MaxPool as the position of the largest element of each window, MaxUnpool as a ScatterElements,
and MaxPool over three dims as pools over two."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from qverify.onnx_model.decompositions.volume_pools import max_pool_of_volumes
from qverify.onnx_model.rewriter import Rewriter, attribute, input_name

MAX_ELEMENTS = 1 << 25  # of all windows, or of what is unpooled
Positions = npt.NDArray[np.int64]


def max_pool(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes a MaxPool whose Indices are used, or one over three dims, or with a storage_order, which concerns the
    Indices only; leaves every other one."""
    if not r.is_read(1):
        if not attribute(node, "storage_order", 0):
            return max_pool_of_volumes(r, node)
        r.nodes.append(_without_indices(node))
        return None
    if not attribute(node, "kernel_shape", []) or len(r.dims(node.input[0])) < 3:
        raise r.refusal("its Indices need a kernel_shape and an input of rank 3 or more")
    r.nodes.append(_without_indices(node))
    _indices(r, node)
    return None


def _without_indices(node: onnx.NodeProto) -> onnx.NodeProto:
    pool = onnx.NodeProto(op_type="MaxPool", name=node.name, input=node.input, output=node.output[:1])
    pool.attribute.extend(a for a in node.attribute if a.name != "storage_order")
    return pool


def _indices(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the Indices: of each window the first of its largest elements, counted through the whole input."""
    dims, out = r.dims(node.input[0]), r.dims(node.output[0])
    planes, size, windows = dims[0] * dims[1], prod(dims[2:]), prod(out[2:])
    positions = _positions_in_windows(r, node, dims[2:], out[2:])
    length, kind = positions.shape[1], helper.tensor_dtype_to_np_dtype(r.kind(node.input[0]))
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    lines = r.step("Reshape", [node.input[0], r.ints("lines_dims", [planes, size])], "lines")
    outside = r.constant("outside", np.full((planes, 1), lowest, kind))
    padded = r.step("Concat", [lines, outside], "lines_padded", axis=1)
    taps = r.ints("taps", np.where(positions < 0, size, positions).ravel())
    gathered = r.step("Gather", [padded, taps], "gathered", axis=1)
    elements = r.step("Reshape", [gathered, r.ints("windows_dims", [planes, windows, length])], "elements")
    largest = r.step("ArgMax", [elements], "largest", axis=2, keepdims=0)
    entries = r.step("Add", [largest, r.ints("first_entries", [np.arange(windows) * length])], "entries")
    places = _by_columns(positions, dims[2:]) if attribute(node, "storage_order", 0) else positions
    in_plane = r.step("Gather", [r.ints("places", places.ravel()), entries], "places_in_planes")
    every = r.step("Add", [in_plane, r.ints("first_places", np.arange(planes)[:, None] * size)], "places_of_all")
    r.node("Reshape", [every, r.ints("dims", out)], node.output[1])


def _positions_in_windows(r: Rewriter, node: onnx.NodeProto, size: Any, out: Any) -> Positions:
    """Returns where the elements of each window lie in their channel, [windows, elements of a window]: those inside the
    input in rising order, then -1 for those outside."""
    rank, kernel = len(size), attribute(node, "kernel_shape", [])
    if prod(kernel) * prod(r.dims(node.output[0])) > MAX_ELEMENTS:
        raise r.refusal("the Indices of windows with more than 2^25 elements together are not supported")
    strides, dilations = (attribute(node, n, [1] * rank) for n in ("strides", "dilations"))
    auto, begins = attribute(node, "auto_pad", b"NOTSET"), list(attribute(node, "pads", [0] * 2 * rank)[:rank])
    if auto.startswith(b"SAME"):
        if set(dilations) != {1}:
            raise r.refusal("auto_pad=SAME with dilations is not supported. Export with explicit pads")
        totals = [max(0, (o - 1) * s + k - n) for o, s, k, n in zip(out, strides, kernel, size, strict=True)]
        begins = [t // 2 if auto == b"SAME_UPPER" else t - t // 2 for t in totals]
    positions, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), np.bool_)
    for at in range(rank):
        taps = np.arange(out[at])[:, None] * strides[at] - begins[at] + np.arange(kernel[at]) * dilations[at]
        positions = (positions[:, None, :, None] * size[at] + taps[None, :, None]).reshape(len(positions) * out[at], -1)
        valid = (taps >= 0) & (taps < size[at])
        inside = (inside[:, None, :, None] & valid[None, :, None]).reshape(positions.shape)
    positions = np.where(inside, positions, -1)
    order = np.argsort(~inside, axis=1, kind="stable")
    return np.take_along_axis(positions, order, axis=1)


def _by_columns(positions: Positions, size: tuple[int, ...]) -> Positions:
    """Returns the positions counted with the first dim fastest, as storage_order=1 does."""
    coordinates = np.unravel_index(np.maximum(positions, 0), size)
    return np.ravel_multi_index(coordinates, size, order="F").astype(np.int64)


def max_unpool(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes a MaxUnpool: each element to its index in a tensor of zeros."""
    if input_name(node, 2) and r.value(node.input[2]) is None:
        raise r.refusal("its output_shape is computed at run time; only constants can be compiled")
    if r.kind(node.input[0]) != onnx.TensorProto.FLOAT:
        raise r.refusal("other types than float32 are not supported")
    count, out = prod(r.dims(node.input[0])), r.dims(node.output[0])
    if prod(out) > MAX_ELEMENTS:
        raise r.refusal("outputs of more than 2^25 elements are not supported")
    flat = r.ints("flat_dims", [count])
    values, indices = (
        r.step("Reshape", [name, flat], f"{what}_flat")
        for name, what in zip(node.input[:2], ("values", "indices"), strict=True)
    )
    zeros = r.constant("zeros", np.zeros(prod(out), np.float32))
    scattered = r.step("ScatterElements", [zeros, indices, values], "scattered")
    r.node("Reshape", [scattered, r.ints("dims", out)], node.output[0])


REPLACED = {("", "MaxPool"): max_pool, ("", "MaxUnpool"): max_unpool}
