"""Softmax -> QLinearSoftmax -> softmax, with a table of exponentials as in onnxruntime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder, float_word
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import Activation, LoweredUnit, microsoft, operand, qlinear_operands
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

ONNX_TYPES = {"Softmax": {"axis": ANY}}
OPERATORS = {"QLinearSoftmax": {"axis": ANY, "opset": ANY}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    x = view.dequantized(node.input[0])
    if x is None or x.value is not None or max(len(x.scale), len(y.scale)) > 1:
        return None
    if not x.eight_bit or x.dtype != y.dtype or act.clamps(y.dtype):
        return None
    shape = view.shape(x.name)
    axis, rows = softmax_rows(shape, attributes(node).get("axis", -1 if view.opset >= 13 else 1), view.opset)
    if rows[1] < 2 or _overflows(y, rows[1]):
        return None
    unit = LoweredUnit(y.name, lambda b: lower(b, view, x, y, rows))
    unit.onnx = [
        microsoft(
            "QLinearSoftmax", [*qlinear_operands(x), y.scale_name, y.zero_name], [y.name], axis=axis, opset=view.opset
        )
    ]
    return unit


def _overflows(y: QuantizedTensor, depth: int) -> bool:
    """Returns whether QLinearSoftmax overflows float32 when it scales its largest exponential, exp(-5) of FLT_MAX /
    depth; it then returns 255 for much smaller values. Such a Softmax stays float, as onnxruntime computes it with
    nothing fused."""
    return float(np.floor(np.float32(1.0) / np.float32(y.scale[0]))) * float(functions64.exp(-5.0)) / depth > 0.99


def softmax_rows(shape: tuple[int, ...], axis: int, opset: int) -> tuple[int, tuple[int, int, int]]:
    """Returns the axis and (outer, depth, inner). Before opset 13 all dims from the axis on form one row."""
    axis %= len(shape)
    if opset < 13:
        return axis, (math.prod(shape[:axis]), math.prod(shape[axis:]), 1)
    return axis, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    x, y, attrs = quantized_input(view, node, 0), quantized_output(view, node, 0, 3), attributes(node)
    _, rows = softmax_rows(view.shape(x.name), attrs.get("axis", -1), attrs.get("opset", view.opset))
    return LoweredUnit(y.name, lambda b: lower(b, view, x, y, rows), [node])


def lower(
    builder: Builder, view: GraphView, x: QuantizedTensor, y: QuantizedTensor, rows: tuple[int, int, int]
) -> None:
    scale = float(x.scale[0])
    largest = float(np.float32(np.finfo(np.float32).max) / np.float32(rows[1]))
    bound = max(0.0, float(functions64.log(largest)) - 5.0) / scale
    table = functions64.exp((np.arange(256) - 255 + bound) * scale).astype(np.float32)
    name = builder.new_constant(f"{y.name}/table", table)
    inverse = float(np.floor(np.float32(1.0) / np.float32(y.scale[0])))
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    builder.node("softmax", [operand(builder, x, view.shape(x.name)), name], [y.name], [*rows, float_word(inverse)])
