"""Converts operators that reduce axes: MEAN, SUM, REDUCE_MAX, REDUCE_MIN, ARG_MAX and ARG_MIN."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from qverify.arithmetic.litert_functions import summed, summed_in_float32
from qverify.tflite_model.activation_types import is_quantized
from qverify.tflite_model.checks import axis_in_onnx, ends_of, integers, require, same_quantization
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.tables import codes_of
from qverify.tflite_model.writer import EIGHT_BITS, INT32, NCHW, UINT8, Writer

SEARCHES = {"ARG_MAX": "ArgMax", "ARG_MIN": "ArgMin"}
EXTREMA = {"REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}
MOST_SUMMED = 257  # elements whose sum fits 16 bits
INDEX_TYPES = {2: "int32", 4: "int64"}  # the schema's numbers of types


def _axes(writer: Writer, operator: TfliteOperator, x: TfliteTensor) -> list[int]:
    """Returns the reduced axes of the file."""
    axes, rank = integers(writer, operator.inputs[1]), len(x.shape)
    require(bool(axes) and all(-rank <= a < rank for a in axes), f"axes {axes} of {list(x.shape)}")
    return sorted({a % rank for a in axes})


def _source(writer: Writer, x: TfliteTensor, axes: list[int], keeps: bool) -> tuple[str, list[int]]:
    """Returns the name of the tensor that is reduced, as it is stored, and its reduced axes. Axes that are left must have
    the file's order, unless all are kept."""
    if len(x.shape) != 4:
        return writer.stored(x.index), axes
    left = [a for a in NCHW if a not in axes]
    if keeps or left == sorted(left):
        return writer.stored(x.index), sorted(axis_in_onnx(a, 4) for a in axes)
    return writer.in_file_order(x.index), axes


def _shape_of_result(x: TfliteTensor, axes: list[int], keeps: bool) -> tuple[int, ...]:
    return tuple(1 if a in axes else d for a, d in enumerate(x.shape) if keeps or a not in axes)


def _begin(writer: Writer, operator: TfliteOperator) -> tuple[TfliteTensor, TfliteTensor, list[int], bool]:
    """Returns input, output, the reduced axes, and whether they are kept."""
    x, y = ends_of(writer, operator, 2)
    axes, keeps = _axes(writer, operator, x), bool(operator.options["KeepDims"])
    made = _shape_of_result(x, axes, keeps)
    require(made == y.shape or prod(made) == prod(y.shape) == 1, f"{list(made)} as {list(y.shape)}")
    require(len(y.shape) != 4 or len(x.shape) == 4, f"{len(x.shape)} axes that become four")
    return x, y, axes, keeps


def mean(writer: Writer, operator: TfliteOperator) -> None:
    x, y, axes, keeps = _begin(writer, operator)
    source, reduced = _source(writer, x, axes, keeps)
    real = writer.real(x.index, "" if source == writer.name(x.index) else source)
    writer.node("ReduceMean", [real], writer.unquantized(y.index), axes=reduced, keepdims=int(keeps))
    writer.finish(operator)


def total(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a SUM: the sum of the stored bytes, and a table that makes of it what LiteRT does."""
    x, y, axes, keeps = _begin(writer, operator)
    count = prod(x.shape[a] for a in axes)
    source, reduced = _source(writer, x, axes, keeps)
    name = writer.name(y.index)
    if x.dtype == "float32":
        of = writer.constant(f"{name}@axes", np.array(reduced, np.int64))
        writer.node("ReduceSum", [source, of], writer.unquantized(y.index), keepdims=int(keeps))
        writer.finish(operator)
        return
    require(x.dtype in EIGHT_BITS, f"a tensor of {x.dtype}")
    require(count <= MOST_SUMMED, f"a sum of {count} elements; wanted at most {MOST_SUMMED}")
    as_bytes = x.dtype == "int8" and writer.kernels == "reference"
    if as_bytes:  # LiteRT's kernel reads the bytes as uint8
        direct = len(x.shape) == 4 and source == writer.name(x.index)
        axes_of_copy, dims = (NCHW, writer.onnx_shape(x.index)) if direct else (range(len(x.shape)), x.shape)
        copy = writer.entry(f"{source}@uint8", x.index, axes_of_copy, dims, "uint8")
        source = writer.node("Cast", [source], copy, to=UINT8)
    wide = writer.node("Cast", [source], f"{name}@partwide", to=INT32)
    of = writer.constant(f"{name}@axes", np.array(reduced, np.int64))
    added = writer.node("ReduceSum", [wide, of], f"{name}@partsum", keepdims=int(keeps))
    if x.dtype == "int8" and not as_bytes:
        added = writer.node(
            "Add", [added, writer.constant(f"{name}@lowest", np.array(128 * count, np.int32))], f"{name}@partplace"
        )
    compute = summed if writer.kernels == "reference" else summed_in_float32
    writer.table(y.index, added, compute(codes_of(x), codes_of(y), count))


def extremum(writer: Writer, operator: TfliteOperator) -> None:
    x, y, axes, keeps = _begin(writer, operator)
    require(same_quantization(x, y), "another quantization than its input")
    require(x.dtype in (*EIGHT_BITS, "int16", "int32", "int64", "float32"), f"a tensor of {x.dtype}")
    source, reduced = _source(writer, x, axes, keeps)
    if x.dtype == "int16":  # ONNX's operator has no kernel of it
        real = writer.real(x.index, "" if source == writer.name(x.index) else source)
        writer.node(EXTREMA[operator.kind], [real], writer.unquantized(y.index), axes=reduced, keepdims=int(keeps))
        writer.finish(operator)
        return
    writer.node(EXTREMA[operator.kind], [source], writer.mapped(y.index), axes=reduced, keepdims=int(keeps))


def search(writer: Writer, operator: TfliteOperator) -> None:
    """Writes an ARG_MAX or ARG_MIN, whose indices may be int32: ONNX's are int64."""
    x, y = ends_of(writer, operator, 2)
    require(x.dtype == "float32" or is_quantized(x), f"an input of {x.dtype}")
    kind = INDEX_TYPES.get(int(operator.options["OutputType"]), "another type")
    require(kind == y.dtype, f"indices of {kind} for an output of {y.dtype}")
    (axis, *more) = integers(writer, operator.inputs[1]) or [0]
    require(not more and len(y.shape) != 4, f"axis {axis} of {list(x.shape)}")
    require(-len(x.shape) <= axis < len(x.shape), f"axis {axis} of {list(x.shape)}")
    source, reduced = _source(writer, x, [axis % len(x.shape)], False)
    real = writer.real(x.index, "" if source == writer.name(x.index) else source)
    name = writer.mapped(y.index)
    if y.dtype == "int64":
        writer.node(SEARCHES[operator.kind], [real], name, axis=reduced[0], keepdims=0)
        return
    wide = writer.entry(f"{name}@int64", y.index, range(len(y.shape)), y.shape, "int64")
    writer.node(SEARCHES[operator.kind], [real], wide, axis=reduced[0], keepdims=0)
    writer.node("Cast", [wide], name, to=INT32)


REDUCTIONS: dict[str, Callable[[Writer, TfliteOperator], None]] = {
    **dict.fromkeys(EXTREMA, extremum),
    **dict.fromkeys(SEARCHES, search),
    "MEAN": mean,
    "SUM": total,
}
