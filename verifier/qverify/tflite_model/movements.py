"""Converts operators that move or select elements of one tensor, of any type: they compute nothing, so that the stored
numbers are moved as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from qverify.tflite_model.checks import integers, require, same_quantization
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.writer import NCHW, Writer

REFLECT, SYMMETRIC = 0, 1  # the schema's numbers of MIRROR_PAD's modes


def moved(writer: Writer, operator: TfliteOperator, data: int = 0) -> tuple[TfliteTensor, TfliteTensor]:
    """Returns the input whose elements are moved, and the first output. data: which input that is. Raises
    UnsupportedError if an output has another quantization."""
    require(len(operator.inputs) > data and operator.inputs[data] >= 0 and bool(operator.outputs), "no input")
    x = writer.tensor(operator.inputs[data])
    for index in operator.outputs:
        require(same_quantization(x, writer.tensor(index)), "another quantization than its input")
    return x, writer.tensor(operator.outputs[0])


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
        writer.reshape(writer.in_file_order(x.index), writer.mapped(y.index), dims)
        return
    dims_name = writer.constant(f"@shape{','.join(map(str, y.shape))}", np.array(y.shape, np.int64))
    writer.from_file_order(y.index, "Reshape", [writer.in_file_order(x.index), dims_name])


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
    name = writer.constant(f"@shape{','.join(map(str, shape))}", np.array(shape, np.int64))
    writer.from_file_order(target, "Reshape", [part, name])


def slice_(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    begins, sizes = (integers(writer, i) for i in operator.inputs[1:3])
    require(len(begins) == len(sizes) == len(x.shape), f"{len(begins)} places of {len(x.shape)} axes")
    ranges = [range(b, dim if size == -1 else b + size) for b, size, dim in zip(begins, sizes, x.shape, strict=True)]
    inside = all(len(r) and r.start >= 0 and r.stop <= dim for r, dim in zip(ranges, x.shape, strict=True))
    require(inside, f"places {begins}, sizes {sizes} of {list(x.shape)}")
    _cut(writer, x, y.index, ranges)


def strided_slice(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a STRIDED_SLICE: bits of its masks say for an axis that the slice begins or ends at its end, or that one
    index is taken and the axis left out."""
    x, y = moved(writer, operator)
    begins, ends, steps = (integers(writer, i) for i in operator.inputs[1:4])
    masks = {
        name: int(operator.options[f"{name}Mask"]) for name in ("Begin", "End", "ShrinkAxis", "Ellipsis", "NewAxis")
    }
    require(not masks["Ellipsis"] and not masks["NewAxis"], "an ellipsis or a new axis")
    require(len(begins) == len(ends) == len(steps) <= len(x.shape), f"{len(begins)} places of {len(x.shape)} axes")
    ranges = []
    for axis, dim in enumerate(x.shape):
        if axis >= len(begins):
            ranges.append(range(dim))
            continue
        begin, end, step = begins[axis], ends[axis], steps[axis]
        require(step != 0, "a step of 0")
        if masks["ShrinkAxis"] >> axis & 1:
            require(-dim <= begin < dim, f"index {begin} of {dim}")
            ranges.append(range(begin % dim, begin % dim + 1))
            continue
        if operator.options["Offset"]:
            end += begin
        first = None if masks["Begin"] >> axis & 1 else begin
        last = None if masks["End"] >> axis & 1 else end
        ranges.append(range(*slice(first, last, step).indices(dim)))
    require(all(map(len, ranges)), "an axis without elements")
    (_cut_and_reshape if masks["ShrinkAxis"] else _cut)(writer, x, y.index, ranges)


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
        require(same_quantization(part, y) and part.shape == x.shape, "an input of another type, quantization or shape")
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


def gather(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    indices, rank = writer.tensor(operator.inputs[1]), len(x.shape)
    axis = int(operator.options["Axis"])
    require(indices.dtype in ("int32", "int64"), f"indices of {indices.dtype}")
    require(not operator.options["BatchDims"] and -rank <= axis < rank, "indices for each batch, or an axis beyond")
    if indices.data is not None:
        require(bool((indices.data >= 0).all() and (indices.data < x.shape[axis]).all()), "an index beyond the axis")
    inputs = [writer.in_file_order(x.index), writer.in_file_order(indices.index)]
    writer.from_file_order(y.index, "Gather", inputs, axis=axis % rank)


def gather_nd(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    indices = writer.tensor(operator.inputs[1])
    require(indices.dtype in ("int32", "int64") and bool(indices.shape), f"indices of {indices.dtype}")
    name = writer.in_file_order(indices.index)
    if indices.data is not None:
        name = writer.constant(f"{writer.name(y.index)}@indices", indices.data.astype(np.int64))
    else:
        require(indices.dtype == "int64", "computed indices that are not int64")
    writer.from_file_order(y.index, "GatherND", [writer.in_file_order(x.index), name])


def depth_to_space(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    size = int(operator.options["BlockSize"])
    require(len(x.shape) == 4 and size > 0 and x.shape[3] % size**2 == 0, f"blocks of {size} in {list(x.shape)}")
    writer.move("DepthToSpace", writer.stored(x.index), writer.mapped(y.index), blocksize=size, mode="DCR")


def space_to_depth(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    size = int(operator.options["BlockSize"])
    fits = len(x.shape) == 4 and size > 0 and x.shape[1] % size == x.shape[2] % size == 0
    require(fits, f"blocks of {size} in {list(x.shape)}")
    n, h, w, c = x.shape
    _regroup(writer, x, y, (n, h // size, size, w // size, size, c), (0, 1, 3, 2, 4, 5))


def _regroup(writer: Writer, x: TfliteTensor, y: TfliteTensor, dims: Sequence[int], order: Sequence[int]) -> None:
    """Writes y as the elements of x, with these dims, in another order of their axes."""
    turned = [dims[a] for a in order]
    require(prod(dims) == prod(y.shape), f"{list(x.shape)} as {list(y.shape)}")
    part = writer.entry(f"{writer.name(y.index)}@blocks", y.index, range(len(y.shape)), turned)
    writer.move("Transpose", writer.reshaped(x.index, dims), part, perm=list(order))
    name = writer.constant(f"@shape{','.join(map(str, y.shape))}", np.array(y.shape, np.int64))
    writer.from_file_order(y.index, "Reshape", [part, name])


def space_to_batch(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    sizes, pads = (integers(writer, i) for i in operator.inputs[1:3])
    require(not any(pads), "paddings")
    require(len(sizes) == len(x.shape) - 2 and min(sizes, default=0) > 0, f"blocks of {sizes} in {list(x.shape)}")
    n, *sides, c = x.shape
    require(all(d % s == 0 for d, s in zip(sides, sizes, strict=True)), f"blocks of {sizes} in {list(x.shape)}")
    dims = [n, *(v for d, s in zip(sides, sizes, strict=True) for v in (d // s, s)), c]
    places = range(1, 2 * len(sizes), 2)
    _regroup(writer, x, y, dims, [*(p + 1 for p in places), 0, *places, len(dims) - 1])


def batch_to_space(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a BATCH_TO_SPACE_ND: a choice of the elements of its input by their places."""
    x, y = moved(writer, operator)
    sizes, crops = (integers(writer, i) for i in operator.inputs[1:3])
    n, *sides, c = x.shape
    require(len(sizes) == len(sides) and len(crops) == 2 * len(sizes), f"blocks of {sizes} in {list(x.shape)}")
    require(min(sizes) > 0 and n % prod(sizes) == 0 and min(crops) >= 0, f"blocks of {sizes} in {list(x.shape)}")
    count = len(sizes)
    places = np.arange(prod(x.shape)).reshape(*sizes, n // prod(sizes), *sides, c)
    order = [count, *(v for k in range(count) for v in (count + 1 + k, k)), 2 * count + 1]
    whole = places.transpose(order).reshape(-1, *(d * s for d, s in zip(sides, sizes, strict=True)), c)
    kept = whole[
        (slice(None), *(slice(a, d - b) for a, b, d in zip(crops[::2], crops[1::2], whole.shape[1:], strict=False)))
    ]
    _choose(writer, x, y, kept)


def _choose(writer: Writer, x: TfliteTensor, y: TfliteTensor, places: np.ndarray) -> None:
    """Writes y as the elements of x at these places, counted in the file's order."""
    require(places.shape == y.shape, f"{list(places.shape)} elements as {list(y.shape)}")
    source = writer.reshaped(x.index, (prod(x.shape),))
    indices = writer.constant(f"{writer.name(y.index)}@places", places.astype(np.int64))
    writer.from_file_order(y.index, "Gather", [source, indices], axis=0)


def pad(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a PAD, which adds elements of the zero point, or a PADV2, which adds a stated one."""
    x, y = moved(writer, operator)
    value = np.zeros((), x.dtype) if not x.scale.size else x.zero[0].astype(x.dtype)
    if len(operator.inputs) == 3:
        stated = writer.tensor(operator.inputs[2])
        require(stated.data is not None and stated.data.size == 1, "a value that is no constant")
        require(same_quantization(stated, x), "a value of another quantization")
        assert stated.data is not None
        value = stated.data.reshape(())
    begins, ends = _pads(writer, operator, x)
    order = NCHW if len(x.shape) == 4 else range(len(x.shape))
    both = writer.constant(f"{writer.name(y.index)}@pads", np.array([v[a] for v in (begins, ends) for a in order]))
    if x.dtype == "int16" and x.scale.size == 1:  # onnxruntime has no kernel of it
        real = (value.astype(np.float32) - np.float32(x.zero[0])) * x.scale[0]
        added = writer.constant(f"{writer.name(y.index)}@value", np.array(real, np.float32))
        writer.node("Pad", [writer.real(x.index), both, added], writer.unquantized(y.index), mode="constant")
        writer.finish(operator)
        return
    added = writer.constant(f"{writer.name(y.index)}@value", value)
    writer.move("Pad", writer.stored(x.index), writer.mapped(y.index), both, added, mode="constant")


def _pads(writer: Writer, operator: TfliteOperator, x: TfliteTensor) -> tuple[list[int], list[int]]:
    """Returns how many elements are added before and after each axis of the file."""
    pads = integers(writer, operator.inputs[1])
    require(len(pads) == 2 * len(x.shape) and min(pads, default=0) >= 0, f"paddings {pads} of {list(x.shape)}")
    return pads[::2], pads[1::2]


def mirror_pad(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    begins, ends = _pads(writer, operator, x)
    reflect = operator.options["Mode"] == REFLECT
    most = [d - reflect for d in x.shape]
    require(all(max(b, e) <= m for b, e, m in zip(begins, ends, most, strict=True)), f"paddings beyond {list(x.shape)}")
    places = np.arange(prod(x.shape)).reshape(x.shape)
    _choose(writer, x, y, np.pad(places, list(zip(begins, ends, strict=True)), "reflect" if reflect else "symmetric"))


MOVEMENTS: dict[str, Callable[[Writer, TfliteOperator], None]] = {
    "BATCH_TO_SPACE_ND": batch_to_space,
    "DEPTH_TO_SPACE": depth_to_space,
    "EXPAND_DIMS": reshape,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "MIRROR_PAD": mirror_pad,
    "PACK": pack,
    "PAD": pad,
    "PADV2": pad,
    "RESHAPE": reshape,
    "REVERSE_V2": reverse,
    "SLICE": slice_,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "SPACE_TO_DEPTH": space_to_depth,
    "SPLIT": split,
    "SPLIT_V": split,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
