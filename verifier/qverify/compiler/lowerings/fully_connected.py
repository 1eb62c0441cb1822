"""Gemm -> QGemm -> fully_connected."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import Builder
from qverify.compiler.float_output import (
    UNLIMITED,
    FloatOutput,
    float_output,
    float_unit,
    quantized_operands,
    real_bias,
)
from qverify.compiler.linear_layers import bias_overflows, integer_bias, integer_kernel, weight_and_bias
from qverify.compiler.qoperator import constant_operand, quantized_input, quantized_output
from qverify.compiler.unit import (
    Activation,
    Array,
    LoweredUnit,
    microsoft,
    operand,
    qlinear_operands,
    whole_range,
    with_activation,
)
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

ONNX_TYPES = {"Gemm": {"alpha": ANY, "beta": ANY, "transA": ANY, "transB": ANY}}
OPERATORS = {"QGemm": {"alpha": ANY, "transA": only(0), "transB": ANY}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    x, w, attrs = view.dequantized(node.input[0]), view.dequantized(node.input[1]), attributes(node)
    if x is None or w is None or len(x.scale) > 1 or len(y.scale) > 1:
        return None
    if w.value is None or attrs.get("transA", 0) or attrs.get("beta", 1.0) != 1.0 or attrs.get("alpha", 1.0) <= 0:
        return None
    alpha = np.float32(attrs.get("alpha", 1.0))
    wide = x.sixteen_bit or w.sixteen_bit or y.sixteen_bit
    scaled = QuantizedTensor(x.name, x.scale * alpha, x.zero_point, x.dtype, x.axis, x.scale_name, x.zero_name)
    kernel = integer_kernel(x, y, w) and not wide
    bias_of = node.input[2] if len(node.input) > 2 else ""
    if bias_overflows(view, bias_of, scaled, w, wide):
        return None  # left to match_float, which keeps the bias as a float
    bias, bias_name, new = integer_bias(view, node, bias_of, scaled, w, wide, kernel)
    columns = w.value.shape[0 if attrs.get("transB", 0) else 1]
    if bias is not None and (bias.size != columns or view.shape(node.input[2])[-1:] != (columns,)):
        return None  # a bias per row, or a single number, is left to the float node or refused there
    unit = LoweredUnit(y.name, lambda b: lower(b, view, node, x, w, bias, y, act, kernel))
    if kernel:
        inputs = [*qlinear_operands(x), *qlinear_operands(w), bias_name, y.scale_name, y.zero_name]
        keep = {k: v for k, v in attrs.items() if k in ("alpha", "transA", "transB")}
        unit.onnx, unit.constants = [microsoft("QGemm", inputs, [y.name], **keep)], new
        with_activation(unit, y, act)
    return unit


def match_float(view: GraphView, node: Any) -> LoweredUnit | None:
    operands, (good, bias), attrs = quantized_operands(view, node), real_bias(view, node), attributes(node)
    if operands is None or not good or attrs.get("transA", 0) or not 0 < attrs.get("alpha", 1.0) < np.inf:
        return None
    x, w = operands
    axis = 0 if attrs.get("transB", 0) else 1
    if w.value is None or len(x.scale) > 1 or (len(w.scale) > 1 and w.axis != axis):
        return None
    columns = w.value.shape[axis]
    if bias is not None:
        if (
            bias.size not in (1, columns)
            or (bias.shape or (1,))[-1] not in (1, columns)
            or bias.shape[:-1] not in ((), (1,))
        ):
            return None  # a bias by rows
        bias = np.broadcast_to(bias.reshape(-1) * np.float32(attrs.get("beta", 1.0)), (columns,)).astype(np.float32)
    return float_unit(node, lambda b, y: lower(b, view, node, x, w, bias, y, UNLIMITED, False))


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    x = quantized_input(view, node, 0)
    transposed = bool(attributes(node).get("transB", 0))
    w = quantized_input(view, node, 3, 0 if transposed else len(view.shape(node.input[3])) - 1)
    floats = len(node.input) < 8 or not node.input[7]
    y = float_output(node.output[0]) if floats else quantized_output(view, node, 0, 7)
    bias = constant_operand(view, node, 6, "bias")
    columns = view.shape(y.name)[-1]
    if bias is not None and bias.size == 1:
        bias = np.full(columns, bias.reshape(-1)[0])
    if bias is not None and (bias.size != columns or bias.shape[-1:] != (columns,)):
        raise UnsupportedError(
            f"{node.name} (QGemm): bias of shape {list(bias.shape)} for {columns} columns; only one value per column is supported"
        )
    if w.value is None:
        raise UnsupportedError(
            f"{node.name} (QGemm): its weights are computed at run time; only constants can be compiled"
        )
    act = UNLIMITED if isinstance(y, FloatOutput) else whole_range(y.dtype)
    return LoweredUnit(y.name, lambda b: lower(b, view, node, x, w, bias, y, act, True), [node])


def lower(
    builder: Builder,
    view: GraphView,
    node: Any,
    x: QuantizedTensor,
    w: QuantizedTensor,
    bias: Array | None,
    y: QuantizedTensor | FloatOutput,
    act: Activation,
    kernel: bool,
) -> None:
    attrs = attributes(node)
    assert w.value is not None
    transposed = bool(attrs.get("transB", 0))
    weight, out_axis = (w.value, 0) if transposed else (w.value.T, 1)
    if len(w.scale) > 1 and w.axis != out_axis:
        raise UnsupportedError(
            f"{node.name} (Gemm): weights quantized along axis {w.axis}; wanted the output axis {out_axis}"
        )
    alpha = np.float32(attrs.get("alpha", 1.0))
    wide = x.sixteen_bit or w.sixteen_bit or y.sixteen_bit
    single = (np.float32(alpha * np.float32(x.scale[0])) * w.scale).astype(np.float32) / np.float32(y.scale[0])
    real = float(alpha) * float(x.scale[0]) * w.scale.astype(np.float64) / float(y.scale[0])
    floats = isinstance(y, FloatOutput)
    rq = builder.real_scales(y.name, real) if floats else builder.scales(y.name, single, real, kernel, wide)
    constants = weight_and_bias(builder, y, w, weight, 0, bias, wide)
    builder.tensor(y.spec(y.name, view.shape(y.name), layout="NC"))
    builder.node(
        "fully_connected",
        [operand(builder, x, view.shape(x.name)), *constants, rq],
        [y.name],
        [act.low, act.high],
        (),
        kernel and not floats,
    )
