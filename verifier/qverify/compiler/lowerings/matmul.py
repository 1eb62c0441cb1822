"""MatMul -> QLinearMatMul -> matmul."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.builder import Builder
from qverify.compiler.float_output import UNLIMITED, FloatOutput, float_output, float_unit, quantized_operands
from qverify.compiler.linear_layers import integer_kernel
from qverify.compiler.qoperator import quantized_input, quantized_output, with_parameters
from qverify.compiler.unit import (
    Activation,
    LoweredUnit,
    operand,
    qlinear_operands,
    standard,
    whole_range,
    with_activation,
)
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor

ONNX_TYPES: dict[str, Any] = {"MatMul": {}}
OPERATORS: dict[str, Any] = {"QLinearMatMul": {}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    a, b = view.dequantized(node.input[0]), view.dequantized(node.input[1])
    if a is None or b is None or len(a.scale) > 1 or len(y.scale) > 1:
        return None
    if min(len(view.shape(a.name)), len(view.shape(b.name))) < 2:
        return None
    if len(b.scale) > 1 and b.axis != len(view.shape(b.name)) - 1:
        return None  # scales of each matrix or row: left to the float MatMul
    kernel = integer_kernel(a, y, b)
    unit = LoweredUnit(y.name, lambda builder: lower(builder, view, node, a, b, y, act, kernel))
    if kernel:
        weights = _weight_operands(view, unit, b)
        unit.onnx = [standard("QLinearMatMul", [*qlinear_operands(a), *weights, y.scale_name, y.zero_name], [y.name])]
        with_activation(unit, y, act)
    return unit


def _weight_operands(view: GraphView, unit: LoweredUnit, b: QuantizedTensor) -> list[str]:
    """Returns the names of the weights, their scales and their zero points. Those of the columns of a batch of matrices
    are repeated for each matrix, as onnxruntime's kernel wants them."""
    shape = view.shape(b.name)
    if len(b.scale) == 1 or len(shape) == 2 or b.axis != len(shape) - 1:
        return qlinear_operands(b)
    names = [f"{unit.output}/weight_scales", f"{unit.output}/weight_zero_points"]
    for name, values in zip(names, (b.scale, b.zero_point), strict=True):
        unit.constants[name] = np.broadcast_to(values, (*shape[:-2], 1, shape[-1])).copy()
    return [b.name, *names]


def match_float(view: GraphView, node: Any) -> LoweredUnit | None:
    operands = quantized_operands(view, node)
    if operands is None or min(len(view.shape(q.name)) for q in operands) < 2:
        return None
    a, b = operands
    if len(a.scale) > 1:
        return None
    if len(b.scale) > 1 and b.axis != len(view.shape(b.name)) - 1:
        return None
    return float_unit(node, lambda builder, y: lower(builder, view, node, a, b, y, UNLIMITED, False))


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    a = quantized_input(view, node, 0)
    b = quantized_input(view, node, 3, len(view.shape(node.input[3])) - 1)
    y = quantized_output(view, node, 0, 6)
    return LoweredUnit(y.name, lambda builder: lower(builder, view, node, a, b, y, whole_range(y.dtype), True), [node])


def to_float(view: GraphView, node: Any) -> LoweredUnit:
    """Returns the unit of a MatMulIntegerToFloat with constant parameters and without a bias: A B a_scale b_scale
    a_zero_point? b_zero_point?."""
    zero_points = [*node.input[4:6], "", ""][:2]
    a, b = (
        with_parameters(view, node, at, node.input[at + 2], zero_points[at], len(view.shape(node.input[at])) - 1)
        for at in (0, 1)
    )
    if len(a.scale) > 1 or min(len(view.shape(q.name)) for q in (a, b)) < 2:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): wanted operands of rank 2 or more, and one scale for the first"
        )
    y = float_output(node.output[0])
    return LoweredUnit(y.name, lambda builder: lower(builder, view, node, a, b, y, UNLIMITED, True), [node])


def lower(
    builder: Builder,
    view: GraphView,
    node: Any,
    a: QuantizedTensor,
    b: QuantizedTensor,
    y: QuantizedTensor | FloatOutput,
    act: Activation,
    kernel: bool,
) -> None:
    if len(b.scale) > 1 and b.axis != len(view.shape(b.name)) - 1:
        raise UnsupportedError(f"{node.name} (MatMul): weights quantized along axis {b.axis}; wanted the last axis")
    single = (np.float32(a.scale[0]) * b.scale).astype(np.float32) / np.float32(y.scale[0])
    real = float(a.scale[0]) * b.scale.astype(np.float64) / float(y.scale[0])
    wide = a.sixteen_bit or b.sixteen_bit or y.sixteen_bit
    floats = isinstance(y, FloatOutput)
    rq = builder.real_scales(y.name, real) if floats else builder.scales(y.name, single, real, kernel, wide)
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    inputs: list[str | None] = [operand(builder, a, view.shape(a.name)), operand(builder, b, view.shape(b.name)), rq]
    builder.node("matmul", inputs, [y.name], [act.low, act.high], (), kernel and not floats)
