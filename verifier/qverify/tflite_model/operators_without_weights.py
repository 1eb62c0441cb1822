"""Converts operators without weights: sums and products, pools, movements, functions, changes of quantization."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, prod

import numpy as np

from qverify.errors import UnsupportedError
from qverify.tflite_model.activation_types import check_activation, is_quantized
from qverify.tflite_model.checks import (
    activation_of,
    axis_in_onnx,
    ends_of,
    integers,
    require,
    same_quantization,
)
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.windows import pads_of, strides_of
from qverify.tflite_model.writer import EIGHT_BITS, Writer

BINARY = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul"}
POOLS = {"AVERAGE_POOL_2D": "AveragePool", "MAX_POOL_2D": "MaxPool"}
FUNCTIONS = {"LOGISTIC": "Sigmoid", "TANH": "Tanh"}
INT64 = 4  # the schema's number of the type


def binary(writer: Writer, operator: TfliteOperator) -> None:
    """Writes an ADD, SUB or MUL."""
    _, y = ends_of(writer, operator, 2)
    operands = []
    for index in operator.inputs:
        tensor = writer.tensor(index) if index >= 0 else None
        if tensor is None:
            raise UnsupportedError("an operand is missing")
        check_activation(writer, operator, index)
        require(not _adds_by_shifts(writer, operator), "scales that are powers of two, which LiteRT adds by shifts")
        aligned = len(tensor.shape) == len(y.shape) or len(y.shape) < 4 or prod(tensor.shape) == 1
        require(aligned, f"an operand of {list(tensor.shape)} for an output of {list(y.shape)}")
        operands.append(writer.real(index))
    writer.node(BINARY[operator.kind], operands, writer.unquantized(y.index))
    writer.finish(operator, activation_of(operator))


def _adds_by_shifts(writer: Writer, operator: TfliteOperator) -> bool:
    """Returns whether LiteRT's kernel of an ADD or SUB of int16 only shifts the operands."""
    tensors = [writer.tensor(i) for i in (*operator.inputs, *operator.outputs)]
    if tensors[0].dtype != "int16":
        return False
    powers = all(frexp(float(t.scale[0]))[0] == 0.5 for t in tensors)
    return powers and bool(operator.options.get("PotScaleInt16"))


def pool(writer: Writer, operator: TfliteOperator) -> None:
    """Writes an AVERAGE_POOL_2D or MAX_POOL_2D; an average over a whole image becomes a GlobalAveragePool."""
    x, y = ends_of(writer, operator, 1)
    require(len(x.shape) == len(y.shape) == 4 and same_quantization(x, y), "another quantization than its input")
    kernel = [int(operator.options[f]) for f in ("FilterHeight", "FilterWidth")]
    require(all(1 <= k <= 1 << 16 for k in kernel), f"a window of {kernel}")
    how = {"strides": strides_of(operator), "pads": pads_of(operator, x.shape[1:3], y.shape[1:3], kernel)}
    whole = tuple(kernel) == x.shape[1:3] and y.shape[1:3] == (1, 1) and operator.kind == "AVERAGE_POOL_2D"
    if whole and not any(how["pads"]):
        writer.node("GlobalAveragePool", [writer.real(x.index)], writer.unquantized(y.index))
    else:
        writer.node(
            POOLS[operator.kind], [writer.real(x.index)], writer.unquantized(y.index), kernel_shape=kernel, **how
        )
    writer.finish(operator, activation_of(operator))


def mean(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 2)
    axes = sorted({a % max(len(x.shape), 1) for a in integers(writer, operator.inputs[1])})
    require(len(x.shape) == 4 and axes == [1, 2], f"axes {axes} of {list(x.shape)}; wanted height and width")
    keep_dims = bool(operator.options["KeepDims"])
    writer.node("ReduceMean", [writer.real(x.index)], writer.unquantized(y.index), axes=[2, 3], keepdims=int(keep_dims))
    writer.finish(operator)


def softmax(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 1)
    require(operator.options["Beta"] == 1.0, f"beta {operator.options['Beta']:g}")
    require(len(x.shape) > 0, "a scalar")
    axis = axis_in_onnx(-1, len(x.shape))
    writer.node("Softmax", [writer.real(x.index)], writer.unquantized(y.index), axis=axis)
    writer.finish(operator)


def function(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a LOGISTIC or TANH."""
    x, y = ends_of(writer, operator, 1)
    require(operator.kind != "TANH" or x.dtype in ("int16", "float32"), f"an input of {x.dtype}")
    writer.node(FUNCTIONS[operator.kind], [writer.real(x.index)], writer.unquantized(y.index))
    writer.finish(operator)


def concatenation(writer: Writer, operator: TfliteOperator) -> None:
    y = writer.tensor(operator.outputs[0])
    for index in operator.inputs:
        tensor = writer.tensor(index) if index >= 0 else None
        fits = tensor is not None and tensor.dtype == y.dtype and tensor.scale.size == y.scale.size
        require(fits and tensor is not None and len(tensor.shape) == len(y.shape), "an input of another type or rank")
    axis = axis_in_onnx(int(operator.options["Axis"]), len(y.shape))
    require(activation_of(operator) == 0, "a fused activation")
    writer.node("Concat", [writer.real(i) for i in operator.inputs], writer.unquantized(y.index), axis=axis)
    writer.finish(operator)


def resize_bilinear(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 2)
    require(len(x.shape) == len(y.shape) == 4 and same_quantization(x, y), "another quantization than its input")
    require(tuple(integers(writer, operator.inputs[1])) == y.shape[1:3], f"a size that is not {list(y.shape[1:3])}")
    align, half = bool(operator.options["AlignCorners"]), bool(operator.options["HalfPixelCenters"])
    require(not (align and half), "both align_corners and half_pixel_centers")
    mode = "align_corners" if align else "half_pixel" if half else "asymmetric"
    sizes = writer.constant(f"{writer.name(y.index)}@sizes", np.array(writer.onnx_shape(y.index), np.int64))
    inputs = [writer.real(x.index), "", "", sizes]
    writer.node("Resize", inputs, writer.unquantized(y.index), mode="linear", coordinate_transformation_mode=mode)
    writer.finish(operator)


def arg_max(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 2)
    require(x.dtype in EIGHT_BITS and x.scale.size == 1, f"an input of {x.dtype}")
    require(operator.options["OutputType"] == INT64 and y.dtype == "int64", "indices that are not int64")
    (axis, *more) = integers(writer, operator.inputs[1]) or [0]
    require(not more and (len(x.shape) != 4 or axis % 4 == 3), f"axis {axis} of {list(x.shape)}")
    require(len(y.shape) != 4, "an output of four axes")
    writer.node(
        "ArgMax", [writer.real(x.index)], writer.mapped(y.index), axis=axis_in_onnx(axis, len(x.shape)), keepdims=0
    )


def quantize(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 1)
    require(is_quantized(y), f"an output of {y.dtype}")
    require(x.dtype == "float32" or is_quantized(x), f"an input of {x.dtype}")
    writer.quantize(writer.real(x.index), y.index)


def dequantize(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 1)
    require(is_quantized(x) and y.dtype == "float32", f"{x.dtype} as {y.dtype}")
    writer.quantizer("DequantizeLinear", _computed(writer, x), x.index, writer.mapped(y.index))


def _computed(writer: Writer, tensor: TfliteTensor) -> str:
    """Returns the name of a computed quantized tensor. Raises UnsupportedError for a constant."""
    require(tensor.data is None, "a constant")
    return writer.name(tensor.index)


WITHOUT_WEIGHTS: dict[str, Callable[[Writer, TfliteOperator], None]] = {
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(POOLS, pool),
    "MEAN": mean,
    "SOFTMAX": softmax,
    **dict.fromkeys(FUNCTIONS, function),
    "CONCATENATION": concatenation,
    "RESIZE_BILINEAR": resize_bilinear,
    "ARG_MAX": arg_max,
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
}
