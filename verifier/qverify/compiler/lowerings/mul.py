"""Mul -> QLinearMul -> mul; 16 bits stay float in the integer ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.builder import Builder
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import (
    Activation,
    LoweredUnit,
    operand,
    per_tensor_operands,
    whole_range,
    with_binary_kernel,
)
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor

ONNX_TYPES: dict[str, Any] = {"Mul": {}}
OPERATORS: dict[str, Any] = {"QLinearMul": {}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    operands = per_tensor_operands(view, node, y)
    if operands is None:
        return None
    a, b = operands
    kernel = a.eight_bit and a.dtype == b.dtype == y.dtype
    unit = LoweredUnit(y.name, lambda builder: lower(builder, view, a, b, y, act, kernel))
    return with_binary_kernel(unit, "QLinearMul", a, b, y, act) if kernel else unit


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    a, b, y = quantized_input(view, node, 0), quantized_input(view, node, 3), quantized_output(view, node, 0, 6)
    return LoweredUnit(y.name, lambda builder: lower(builder, view, a, b, y, whole_range(y.dtype), True), [node])


def lower(
    builder: Builder,
    view: GraphView,
    a: QuantizedTensor,
    b: QuantizedTensor,
    y: QuantizedTensor,
    act: Activation,
    kernel: bool,
) -> None:
    single = np.float32(np.float32(a.scale[0]) * np.float32(b.scale[0])) / np.float32(y.scale[0])
    real = float(a.scale[0]) * float(b.scale[0]) / float(y.scale[0])
    rq = builder.scales(
        y.name, np.array([single]), np.array([real]), kernel, a.sixteen_bit or b.sixteen_bit or y.sixteen_bit
    )
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    builder.node(
        "mul",
        [operand(builder, a, view.shape(a.name)), operand(builder, b, view.shape(b.name)), rq],
        [y.name],
        [act.low, act.high],
        (),
        kernel,
    )
