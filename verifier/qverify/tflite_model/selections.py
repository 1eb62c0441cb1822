"""Converts operators that choose elements of one tensor by their places, regroup them or add to them. They compute
nothing, so that the stored numbers are moved as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from qverify.tflite_model.checks import integers, require, same_quantization
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.writer import INT32, NCHW, Writer

MOST_PLACES = 1 << 24
REFLECT = 0  # the schema's number of the mode of MIRROR_PAD that does not repeat the border; the other is SYMMETRIC


def moved(writer: Writer, operator: TfliteOperator, data: int = 0) -> tuple[TfliteTensor, TfliteTensor]:
    """Returns the input whose elements are moved, and the first output. data: which input that is. An output may have
    another quantization than the input, because LiteRT moves stored numbers all the same. Raises UnsupportedError if it
    has another type."""
    return moved_as(writer, operator, operator.outputs, data)


def moved_as(
    writer: Writer, operator: TfliteOperator, outputs: Sequence[int], data: int = 0
) -> tuple[TfliteTensor, TfliteTensor]:
    """Returns what moved() does, for some of the outputs."""
    require(len(operator.inputs) > data and operator.inputs[data] >= 0 and bool(outputs), "no input")
    x = writer.tensor(operator.inputs[data])
    for index in outputs:
        require(x.dtype == writer.tensor(index).dtype, f"{x.dtype} that becomes {writer.tensor(index).dtype}")
    return x, writer.tensor(outputs[0])


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
    writer.reshape_to(y.index, part)


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
    _check_size(x, y)
    require(min(sizes) > 0 and n % prod(sizes) == 0 and min(crops) >= 0, f"blocks of {sizes} in {list(x.shape)}")
    count = len(sizes)
    places = np.arange(prod(x.shape)).reshape(*sizes, n // prod(sizes), *sides, c)
    order = [count, *(v for k in range(count) for v in (count + 1 + k, k)), 2 * count + 1]
    whole = places.transpose(order).reshape(-1, *(d * s for d, s in zip(sides, sizes, strict=True)), c)
    kept = whole[
        (slice(None), *(slice(a, d - b) for a, b, d in zip(crops[::2], crops[1::2], whole.shape[1:], strict=False)))
    ]
    _choose(writer, x, y, kept)


def _check_size(*tensors: TfliteTensor) -> None:
    """Raises UnsupportedError for a tensor of more elements than places are listed for."""
    for tensor in tensors:
        require(prod(tensor.shape) <= MOST_PLACES, f"{prod(tensor.shape)} elements, wanted at most {MOST_PLACES}")


def _choose(writer: Writer, x: TfliteTensor, y: TfliteTensor, places: np.ndarray) -> None:
    """Writes y as the elements of x at these places, counted in the file's order."""
    require(places.shape == y.shape, f"{list(places.shape)} elements as {list(y.shape)}")
    source = writer.reshaped(x.index, (prod(x.shape),))
    indices = writer.constant(f"{writer.name(y.index)}@places", places.astype(np.int64))
    writer.from_file_order(y.index, "Gather", [source, indices], axis=0)


def pad(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a PAD, which adds elements of the zero point, or a PADV2, which adds a stated one."""
    x, y = moved(writer, operator)
    value = np.zeros((), y.dtype) if not y.scale.size else y.zero[0].astype(y.dtype)
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
    _check_size(x, y)
    made = tuple(b + d + e for b, d, e in zip(begins, x.shape, ends, strict=True))
    require(made == y.shape, f"{list(made)} as {list(y.shape)}")
    places = np.arange(prod(x.shape)).reshape(x.shape)
    _choose(writer, x, y, np.pad(places, list(zip(begins, ends, strict=True)), "reflect" if reflect else "symmetric"))


def resize_nearest(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a RESIZE_NEAREST_NEIGHBOR as a choice of the pixels of each image."""
    x, y = moved(writer, operator)
    require(len(x.shape) == len(y.shape) == 4, f"{list(x.shape)} as {list(y.shape)}")
    require(tuple(integers(writer, operator.inputs[1])) == y.shape[1:3], f"a size that is not {list(y.shape[1:3])}")
    align, half = bool(operator.options["AlignCorners"]), bool(operator.options["HalfPixelCenters"])
    _check_size(x, y)
    rows, columns = (_nearest(x.shape[k], y.shape[k], align, half) for k in (1, 2))
    n, h, w, c = x.shape
    places = writer.constant(f"{writer.name(y.index)}@places", (rows[:, None] * w + columns).reshape(-1))
    part = writer.entry(f"{writer.name(y.index)}@pixels", y.index, range(4), (n, y.shape[1] * y.shape[2], c))
    writer.node("Gather", [writer.reshaped(x.index, (n, h * w, c)), places], part, axis=1)
    writer.reshape_to(y.index, part)


def _nearest(size: int, out: int, align: bool, half: bool) -> np.ndarray:
    """Returns which place of an axis LiteRT reads for each place of the output; it computes them in float32."""
    single = np.float32
    step = single(size - 1) / single(out - 1) if align and out > 1 else single(size) / single(out)
    scaled = (np.arange(out).astype(single) + single(0.5 if half else 0.0)) * step
    found = np.floor(scaled + single(0.5)) if align else np.floor(scaled)
    return np.clip(found.astype(np.int64), 0, size - 1)


def broadcast_to(writer: Writer, operator: TfliteOperator) -> None:
    x, y = moved(writer, operator)
    dims = writer.constant(f"{writer.name(y.index)}@dims", np.array(writer.onnx_shape(y.index), np.int64))
    writer.move("Expand", writer.operand(x.index, len(y.shape)), writer.mapped(y.index), dims)


def top_k(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a TOPK_V2, which finds the largest elements along the last axis and their places."""
    x, y = moved_as(writer, operator, operator.outputs[:1])
    (many,), rank = integers(writer, operator.inputs[1]), len(x.shape)
    places = writer.tensor(operator.outputs[1])
    require(rank != 4 and 0 < many <= x.shape[-1] and y.shape[-1] == many, f"{many} of {list(x.shape)}")
    require(x.dtype in ("int8", "uint8") and places.dtype == "int32", f"{x.dtype} and places of {places.dtype}")
    wide = writer.entry(f"{writer.name(places.index)}@int64", places.index, range(rank), places.shape, "int64")
    k = writer.constant(f"{writer.name(y.index)}@k", np.array([many], np.int64))
    writer.split_node("TopK", [writer.stored(x.index), k], [writer.mapped(y.index), wide])
    writer.node("Cast", [wide], writer.mapped(places.index), to=INT32)


SELECTIONS: dict[str, Callable[[Writer, TfliteOperator], None]] = {
    "BATCH_TO_SPACE_ND": batch_to_space,
    "BROADCAST_TO": broadcast_to,
    "DEPTH_TO_SPACE": depth_to_space,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "MIRROR_PAD": mirror_pad,
    "PAD": pad,
    "PADV2": pad,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "SPACE_TO_DEPTH": space_to_depth,
    "TOPK_V2": top_k,
}
