"""Converts pools, SOFTMAX, LOGISTIC, CONCATENATION, RESIZE_BILINEAR and changes of quantization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qverify.tflite_model.activation_types import is_quantized
from qverify.tflite_model.checks import (
    activation_of,
    axis_in_onnx,
    ends_of,
    integers,
    require,
    same_quantization,
)
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.resize_int16 import resize_int16
from qverify.tflite_model.windows import pads_of, strides_of
from qverify.tflite_model.writer import Writer

MOST_SQUARES = 1 << 22
POOLS = {"AVERAGE_POOL_2D": "AveragePool", "MAX_POOL_2D": "MaxPool"}


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


def softmax(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 1)
    require(operator.options["Beta"] == 1.0, f"beta {operator.options['Beta']:g}")
    require(len(x.shape) > 0, "a scalar")
    axis = axis_in_onnx(-1, len(x.shape))
    writer.node("Softmax", [writer.real(x.index)], writer.unquantized(y.index), axis=axis)
    writer.finish(operator)


def l2_normalization(writer: Writer, operator: TfliteOperator) -> None:
    """Writes an L2_NORMALIZATION of int8 along the last axis, in float32 between the integers: so it rounds as LiteRT's
    fixed point does, if no sum of squares reaches 2^22, above which that rounds twice."""
    x, y = ends_of(writer, operator, 1)
    require(len(x.shape) > 0 and activation_of(operator) == 0, "a scalar, or a fused activation")
    require(x.dtype == y.dtype == "int8", f"a tensor of {x.dtype}; wanted int8")
    require((float(y.scale[0]), int(y.zero[0])) == (1 / 128, 0), f"an output scale of {y.scale[0]:g}, wanted 1/128")
    farthest = max(127 - int(x.zero[0]), int(x.zero[0]) + 128)
    require(x.shape[-1] * farthest**2 < MOST_SQUARES, f"{x.shape[-1]} elements, whose squares may add up to 2^22")
    axis = axis_in_onnx(-1, len(x.shape))
    writer.node("LpNormalization", [writer.real(x.index)], writer.unquantized(y.index), axis=axis, p=2)
    writer.finish(operator)


def logistic(writer: Writer, operator: TfliteOperator) -> None:
    x, y = ends_of(writer, operator, 1)
    writer.node("Sigmoid", [writer.real(x.index)], writer.unquantized(y.index))
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
    if x.dtype == "int16":
        resize_int16(writer, x, y, align, half)
        return
    mode = "align_corners" if align else "half_pixel" if half else "asymmetric"
    sizes = writer.constant(f"{writer.name(y.index)}@sizes", np.array(writer.onnx_shape(y.index), np.int64))
    inputs = [writer.real(x.index), "", "", sizes]
    writer.node("Resize", inputs, writer.unquantized(y.index), mode="linear", coordinate_transformation_mode=mode)
    writer.finish(operator)


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
    **dict.fromkeys(POOLS, pool),
    "SOFTMAX": softmax,
    "L2_NORMALIZATION": l2_normalization,
    "LOGISTIC": logistic,
    "CONCATENATION": concatenation,
    "RESIZE_BILINEAR": resize_bilinear,
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
}
