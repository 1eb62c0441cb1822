"""Where -> QLinearWhere -> where; also on a float stream."""

from __future__ import annotations

from typing import Any

from qverify.compiler.builder import Builder
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import Activation, LoweredUnit, microsoft, operand, qlinear_operands
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor
from qverify.tensors.spec import TensorSpec

ONNX_TYPES: dict[str, Any] = {"Where": {}}
OPERATORS: dict[str, Any] = {"QLinearWhere": {}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    a, b = view.dequantized(node.input[1]), view.dequantized(node.input[2])
    if a is None or b is None or max(len(q.scale) for q in (a, b, y)) > 1 or act.clamps(y.dtype):
        return None
    kernel = y.eight_bit and a.dtype == b.dtype == y.dtype
    unit = LoweredUnit(y.name, lambda builder: lower(builder, view, node.input[0], a, b, y, kernel))
    if kernel:
        inputs = [node.input[0], *qlinear_operands(a), *qlinear_operands(b), y.scale_name, y.zero_name]
        unit.onnx = [microsoft("QLinearWhere", inputs, [y.name])]
    return unit


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    a, b, y = quantized_input(view, node, 1), quantized_input(view, node, 4), quantized_output(view, node, 0, 7)
    return LoweredUnit(y.name, lambda builder: lower(builder, view, node.input[0], a, b, y, True), [node])


def lower(
    builder: Builder,
    view: GraphView,
    cond: str,
    a: QuantizedTensor,
    b: QuantizedTensor,
    y: QuantizedTensor,
    kernel: bool,
) -> None:
    if cond in view.constants:
        mask = builder.constant(cond, view.constants[cond])
    else:
        mask = builder.tensor(TensorSpec(cond, "bool", view.shape(cond)))
    branches = [operand(builder, q, view.shape(q.name)) for q in (a, b)]
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    builder.node("where", [mask, *branches], [y.name], [], (), kernel)


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.builder.node("where", [stream.source(n) for n in node.input], stream.declare(node))
