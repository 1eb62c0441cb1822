"""Converts operators that move or select elements of one tensor, of any type: they compute nothing, so that the stored
numbers are moved as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from qverify.tflite_model.checks import integers, require
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.selections import SELECTIONS, moved
from qverify.tflite_model.writer import NCHW, Writer


def transpose(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    perm = integers(writer, operator.inputs[1])
    require(sorted(perm) == list(range(len(x.shape))), f"axes {perm} of {list(x.shape)}")
    if len(perm) == 4:
        perm = [NCHW.index(perm[axis]) for axis in NCHW]
    writer.move("Transpose", writer.stored(x.index), writer.mapped(y.index), perm=perm)


def reshape(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a RESHAPE, EXPAND_DIMS or SQUEEZE, which keeps the elements in the file's order."""
    x, y = moved(writer, operator)
    require(prod(x.shape) == prod(y.shape), f"{list(x.shape)} as {list(y.shape)}")
    if not writer.is_turned(y.index):
        dims = writer.onnx_shape(y.index)
        writer.reshape(writer.in_memory_order(x.index), writer.mapped(y.index), dims)
        return
    writer.reshape_to(y.index, writer.in_file_order(x.index))


def _slice(writer: Writer, source: str, output: str, places: Sequence[tuple[int, int, int, int]]) -> None:
    """Adds a Slice. places: axis, start, end and step of each axis that is cut."""
    parts = [
        writer.constant(f"{output}@{what}", np.array([p[k] for p in places], np.int64))
        for k, what in ((1, "starts"), (2, "ends"), (0, "axes"), (3, "steps"))
    ]
    writer.move("Slice", source, output, *parts)


def _places(ranges: Sequence[range], order: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Returns the places of a Slice that reads these indices of each axis of the file. order: the file's axes in the
    order of the tensor that is cut."""
    places = []
    for axis, in_file in enumerate(order):
        r = ranges[in_file]
        stop = r[-1] + (1 if r.step > 0 else -1)
        places.append((axis, r.start, stop if stop >= 0 else -(1 << 31), r.step))
    return places


def _cut(writer: Writer, source: TfliteTensor, target: int, ranges: Sequence[range]) -> None:
    """Writes tensor `target`, of the same rank, as these indices of each axis of the source."""
    shape = writer.tensor(target).shape
    require(tuple(map(len, ranges)) == shape, f"{list(map(len, ranges))} elements as {list(shape)}")
    order = NCHW if len(shape) == 4 else range(len(shape))
    _slice(writer, writer.stored(source.index), writer.mapped(target), _places(ranges, order))


def _cut_and_reshape(writer: Writer, source: TfliteTensor, target: int, ranges: Sequence[range]) -> None:
    """Writes tensor `target`, of any rank, as these indices of each axis of the source."""
    shape, dims = writer.tensor(target).shape, tuple(map(len, ranges))
    require(prod(dims) == prod(shape), f"{list(dims)} elements as {list(shape)}")
    part = writer.entry(f"{writer.name(target)}@cut", target, range(len(shape)), dims)
    _slice(writer, writer.in_file_order(source.index), part, _places(ranges, range(len(dims))))
    writer.reshape_to(target, part)


def slice_(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    begins, sizes = (integers(writer, i) for i in operator.inputs[1:3])
    require(len(begins) == len(sizes) == len(x.shape), f"{len(begins)} places of {len(x.shape)} axes")
    ranges = [range(b, dim if size == -1 else b + size) for b, size, dim in zip(begins, sizes, x.shape, strict=True)]
    inside = all(len(r) and r.start >= 0 and r.stop <= dim for r, dim in zip(ranges, x.shape, strict=True))
    require(inside, f"places {begins}, sizes {sizes} of {list(x.shape)}")
    _cut(writer, x, y.index, ranges)


def strided_slice(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a STRIDED_SLICE: bits of its masks say for a place that the slice begins or ends at its axis' end, that one
    index is taken and the axis left out, that all axes which the others leave are whole, or that a new axis is made."""
    x, y = moved(writer, operator)
    begins, ends, steps = (integers(writer, i) for i in operator.inputs[1:4])
    require(len(begins) == len(ends) == len(steps), f"{len(begins)} places, {len(ends)} ends")
    masks = {n: int(operator.options[f"{n}Mask"]) for n in ("Begin", "End", "ShrinkAxis", "Ellipsis", "NewAxis")}
    ranges: list[range] = []
    new_axes = sum(masks["NewAxis"] >> k & 1 for k in range(len(begins)))
    for k, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if masks["NewAxis"] >> k & 1:
            continue
        if masks["Ellipsis"] >> k & 1:
            left = len(x.shape) - (len(begins) - new_axes - 1)
            ranges += [range(d) for d in x.shape[len(ranges) : len(ranges) + max(left, 0)]]
            continue
        require(len(ranges) < len(x.shape) and step != 0, "a step of 0, or more places than axes")
        dim = x.shape[len(ranges)]
        if masks["ShrinkAxis"] >> k & 1:
            require(-dim <= begin < dim, f"index {begin} of {dim}")
            ranges.append(range(begin % dim, begin % dim + 1))
            continue
        first = None if masks["Begin"] >> k & 1 else begin
        last = None if masks["End"] >> k & 1 else begin + end if operator.options["Offset"] else end
        ranges.append(range(*slice(first, last, step).indices(dim)))
    ranges += [range(d) for d in x.shape[len(ranges) :]]
    require(all(map(len, ranges)), "an axis without elements")
    same_axes = not masks["ShrinkAxis"] and not new_axes
    (_cut if same_axes else _cut_and_reshape)(writer, x, y.index, ranges)


def split(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a SPLIT into equal parts, or a SPLIT_V into parts of stated sizes, as a Slice for each."""
    several = operator.kind == "SPLIT_V"
    x, _ = moved(writer, operator, 0 if several else 1)
    (axis,) = integers(writer, operator.inputs[2 if several else 0])
    require(-len(x.shape) <= axis < len(x.shape), f"axis {axis} of {len(x.shape)}")
    axis %= len(x.shape)
    start = 0
    for index in operator.outputs:
        size = writer.tensor(index).shape[axis] if len(writer.tensor(index).shape) == len(x.shape) else 0
        ranges = [range(d) for d in x.shape]
        ranges[axis] = range(start, start + size)
        require(size > 0 and start + size <= x.shape[axis], f"parts of {list(x.shape)} beyond its end")
        _cut(writer, x, index, ranges)
        start += size
    require(start == x.shape[axis], f"parts that end at {start} of {x.shape[axis]}")


def unpack(writer: Writer, operator: TfliteOperator) -> None:
    x, _ = moved(writer, operator)
    axis, rank = int(operator.options["Axis"]), len(x.shape)
    require(-rank <= axis < rank and len(operator.outputs) == x.shape[axis], f"axis {axis} of {list(x.shape)}")
    for place, index in enumerate(operator.outputs):
        ranges = [range(d) for d in x.shape]
        ranges[axis % rank] = range(place, place + 1)
        _cut_and_reshape(writer, x, index, ranges)


def pack(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a PACK: each input gets an axis of one element, and they are joined along it."""
    x, y = moved(writer, operator)
    axis, rank = int(operator.options["Axis"]), len(y.shape)
    require(-rank <= axis < rank and len(x.shape) == rank - 1, f"axis {axis} of {list(y.shape)}")
    parts = []
    for index in operator.inputs:
        require(index >= 0, "an input left out")
        part = writer.tensor(index)
        require(part.dtype == y.dtype and part.shape == x.shape, "an input of another type or shape")
        parts.append(writer.reshaped(index, (*x.shape[: axis % rank], 1, *x.shape[axis % rank :])))
    writer.from_file_order(y.index, "Concat", parts, axis=axis % rank)


def tile(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    many = integers(writer, operator.inputs[1])
    require(len(many) == len(x.shape) and min(many, default=1) > 0, f"{many} times {list(x.shape)}")
    order = NCHW if len(many) == 4 else range(len(many))
    repeats = writer.constant(f"{writer.name(y.index)}@repeats", np.array([many[a] for a in order], np.int64))
    writer.move("Tile", writer.stored(x.index), writer.mapped(y.index), repeats)


def reverse(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    axes, rank = integers(writer, operator.inputs[1]), len(x.shape)
    require(all(-rank <= a < rank for a in axes), f"axes {axes} of {rank}")
    turned = {a % rank for a in axes}
    _cut(writer, x, y.index, [range(d - 1, -1, -1) if a in turned else range(d) for a, d in enumerate(x.shape)])


MOVEMENTS: dict[str, Callable[[Writer, TfliteOperator], None]] = {
    **SELECTIONS,
    "EXPAND_DIMS": reshape,
    "PACK": pack,
    "RESHAPE": reshape,
    "REVERSE_V2": reverse,
    "SLICE": slice_,
    "SPLIT": split,
    "SPLIT_V": split,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
