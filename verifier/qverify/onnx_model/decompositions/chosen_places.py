"""Writes operators that choose by places: Hardmax as OneHot of ArgMax, ReverseSequence as GatherElements, EyeLike as a
constant, IsInf of one sign."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import helper

from qverify.onnx_model.rewriter import Rewriter, attribute


def hardmax(r: Rewriter, node: onnx.NodeProto) -> None:
    """Before opset 13 the line is everything from the axis on."""
    x, dims = node.input[0], r.dims(node.input[0])
    older = r.opset < 13
    axis = attribute(node, "axis", 1 if older else -1) % len(dims)
    if older:
        x = r.step("Reshape", [x, r.ints("line_dims", (prod(dims[:axis]), prod(dims[axis:])))], "lines")
    size, at = prod(dims[axis:]) if older else dims[axis], 1 if older else axis
    place = r.step("ArgMax", [x], "place", axis=at, keepdims=0)
    values = r.constant("zero_and_one", np.array([0, 1], helper.tensor_dtype_to_np_dtype(r.kind(node.input[0]))))
    inputs = [place, r.ints("size", [size]), values]
    if not older:
        r.node("OneHot", inputs, node.output[0], axis=at)
        return
    lines = r.step("OneHot", inputs, "chosen", axis=1)
    r.node("Reshape", [lines, r.ints("dims", dims)], node.output[0])


def reverse_sequence(r: Rewriter, node: onnx.NodeProto) -> None:
    """Gathers element length - 1 - t of each row for t below the row's length, element t behind it."""
    x, dims = node.input[0], r.dims(node.input[0])
    time, batch = attribute(node, "time_axis", 0), attribute(node, "batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise r.refusal(f"time_axis={time} and batch_axis={batch}; wanted 0 and 1, in either order")
    along_time = [dims[time] if a == time else 1 for a in range(len(dims))]
    along_batch = [dims[batch] if a == batch else 1 for a in range(len(dims))]
    steps = r.constant("steps", np.arange(dims[time]).reshape(along_time))
    lengths = r.step("Reshape", [node.input[1], r.ints("lengths_dims", along_batch)], "lengths")
    last = r.step("Sub", [lengths, r.constant("one", np.array(1, np.int64))], "last")
    back = r.step("Sub", [last, steps], "back")
    places = r.step("Where", [r.step("Less", [steps, lengths], "inside"), back, steps], "places")
    every = r.step("Expand", [places, r.ints("dims", dims)], "every_place")
    r.node("GatherElements", [x, every], node.output[0], axis=time)


def eye_like(r: Rewriter, node: onnx.NodeProto) -> None:
    rows, columns = r.dims(node.output[0])
    kind = helper.tensor_dtype_to_np_dtype(r.kind(node.output[0]))
    r.node("Identity", [r.constant("eye", np.eye(rows, columns, attribute(node, "k", 0)).astype(kind))], node.output[0])


def is_inf_of_a_sign(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    x, positive, negative = node.input[0], *(attribute(node, f"detect_{s}", 1) for s in ("positive", "negative"))
    if positive and negative:
        return False
    infinite = r.step("IsInf", [x], "infinite")
    zero = r.constant("zero", np.array(0, np.float32))
    if positive or negative:
        sign = r.step("Greater" if positive else "Less", [x, zero], "of_this_sign")
    else:
        sign = r.step("Not", [infinite], "finite")
    r.node("And", [infinite, sign], node.output[0])
    return None


REPLACED = {
    ("", "Hardmax"): hardmax,
    ("", "ReverseSequence"): reverse_sequence,
    ("", "EyeLike"): eye_like,
    ("", "IsInf"): is_inf_of_a_sign,
}
