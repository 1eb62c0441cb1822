"""Conv -> QLinearConv -> conv."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, CHANNELS, WINDOW
from qverify.compiler.builder import Builder
from qverify.compiler.float_output import UNLIMITED, FloatOutput, float_unit, quantized_operands, real_bias
from qverify.compiler.linear_layers import (
    bias_overflows,
    integer_bias,
    integer_kernel,
    repeated_for_outputs,
    scaled_alike,
    tiled_for_groups,
    weight_and_bias,
)
from qverify.compiler.pool_windows import flat, window_pads
from qverify.compiler.qoperator import constant_operand, quantized_input, quantized_output
from qverify.compiler.unit import (
    Activation,
    Array,
    LoweredUnit,
    operand,
    qlinear_operands,
    standard,
    whole_range,
    with_activation,
)
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

ONNX_TYPES = {"Conv": {**WINDOW, "group": ANY}}
OPERATORS = {"QLinearConv": {**WINDOW, "group": ANY, **CHANNELS}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    x, w = view.dequantized(node.input[0]), view.dequantized(node.input[1])
    if x is None or w is None or w.value is None or not scaled_alike(x, w) or len(y.scale) > 1:
        return None
    wide = x.sixteen_bit or w.sixteen_bit or y.sixteen_bit
    kernel = integer_kernel(x, y, w) and not wide
    steps, bias_of = repeated_for_outputs(x, w.value.shape[0]), node.input[2] if len(node.input) > 2 else ""
    if bias_overflows(view, bias_of, steps, w, wide):
        return None  # left to match_float, which keeps the bias as a float
    bias, bias_name, new = integer_bias(view, node, bias_of, steps, w, wide, kernel)
    unit = LoweredUnit(y.name, lambda b: convolution(b, view, node, "conv", x, w, bias, y, act, kernel))
    if kernel:
        inputs = [*qlinear_operands(x), *qlinear_operands(w), y.scale_name, y.zero_name] + (
            [bias_name] if bias_name else []
        )
        unit.onnx, unit.constants = [standard("QLinearConv", inputs, [y.name], **attributes(node))], new
        with_activation(unit, y, act)
    return unit


def match_float(view: GraphView, node: Any) -> LoweredUnit | None:
    return float_convolution(view, node, "conv")


def float_convolution(view: GraphView, node: Any, stem: str) -> LoweredUnit | None:
    """Returns the unit of a Conv or ConvTranspose whose operands are quantized and whose output stays float."""
    operands, (good, bias) = quantized_operands(view, node), real_bias(view, node)
    if operands is None or not good:
        return None
    x, w = operands
    if w.value is None or (len(w.scale) > 1 and w.axis != (1 if stem == "conv_transpose" else 0)):
        return None
    if not scaled_alike(x, w) or (stem == "conv_transpose" and len(x.scale) > 1):
        return None
    return float_unit(node, lambda b, y: convolution(b, view, node, stem, x, w, bias, y, UNLIMITED, False))


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    """Returns the unit of a QLinearConv in a QOperator model."""
    x, w = quantized_input(view, node, 0), quantized_input(view, node, 3)
    y = quantized_output(view, node, 0, 6)
    bias, act = constant_operand(view, node, 8, "bias"), whole_range(y.dtype)
    return LoweredUnit(y.name, lambda b: convolution(b, view, node, "conv", x, w, bias, y, act, True), [node])


def convolution(
    builder: Builder,
    view: GraphView,
    node: Any,
    stem: str,
    x: QuantizedTensor,
    w: QuantizedTensor,
    bias: Array | None,
    y: QuantizedTensor | FloatOutput,
    act: Activation,
    kernel: bool,
) -> None:
    """Writes the conv or conv_transpose node of a Conv, ConvTranspose or QLinearConv."""
    attrs, shape = attributes(node), view.shape(x.name)
    assert w.value is not None
    spatial = w.value.ndim - 2
    if spatial not in (1, 2):
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): {spatial}-D convolution is not supported; 1-D and 2-D are"
        )
    group = attrs.get("group", 1)
    weight = w.value if spatial == 2 else w.value[:, :, None, :]
    out = view.shape(y.name)
    pads = window_pads(node, attrs, shape[2:], out[2:], w.value.shape[2:])
    words = [
        *flat(list(w.value.shape[2:]), spatial),
        *flat(attrs.get("strides", [1] * spatial), spatial),
        *pads,
        *flat(attrs.get("dilations", [1] * spatial), spatial),
        group,
        act.low,
        act.high,
    ]
    axis = 1 if stem == "conv_transpose" else 0
    if len(w.scale) > 1 and w.axis != axis:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): weights quantized along axis {w.axis}; wanted the output channels, axis {axis}"
        )
    wide = x.sixteen_bit or w.sixteen_bit or y.sixteen_bit
    sx, sw = repeated_for_outputs(x, out[1]).scale, (w if stem == "conv" else tiled_for_groups(w, group)).scale
    single = (sx.astype(np.float32) * sw).astype(np.float32) / np.float32(y.scale[0])
    real = sx.astype(np.float64) * sw.astype(np.float64) / y.scale.astype(np.float64)[0]
    floats = isinstance(y, FloatOutput)
    rq = builder.real_scales(y.name, real) if floats else builder.scales(y.name, single, real, kernel, wide)
    constants = weight_and_bias(builder, y, w, weight, axis, bias, wide)
    builder.tensor(y.spec(y.name, out, layout="NCHW" if len(out) == 4 else "NCW"))
    builder.node(stem, [operand(builder, x, shape), *constants, rq], [y.name], words, (), kernel)
