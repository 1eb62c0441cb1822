"""Concat -> QLinearConcat -> concat; also on a float stream."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import Activation, LoweredUnit, microsoft, operand, qlinear_operands
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

ONNX_TYPES = {"Concat": {"axis": ANY}}
OPERATORS = {"QLinearConcat": {"axis": ANY}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    parts = [view.dequantized(n) for n in node.input]
    operands = [p for p in parts if p is not None and len(p.scale) == 1]
    if len(operands) != len(parts) or len(y.scale) > 1 or act.clamps(y.dtype):
        return None
    axis = attributes(node)["axis"] % len(view.shape(y.name))
    kernel = y.eight_bit and all(p.dtype == y.dtype for p in operands)
    unit = LoweredUnit(y.name, lambda b: lower(b, view, operands, y, axis, kernel))
    if kernel:
        inputs = [y.scale_name, y.zero_name, *(name for p in operands for name in qlinear_operands(p))]
        unit.onnx = [microsoft("QLinearConcat", inputs, [y.name], axis=axis)]
    return unit


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    y = quantized_output(view, node, 0, 0)
    parts = [quantized_input(view, node, at) for at in range(2, len(node.input), 3)]
    axis = attributes(node)["axis"] % len(view.shape(y.name))
    return LoweredUnit(y.name, lambda b: lower(b, view, parts, y, axis, True), [node])


def lower(
    builder: Builder, view: GraphView, parts: list[QuantizedTensor], y: QuantizedTensor, axis: int, kernel: bool
) -> None:
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    inputs: list[str | None] = [operand(builder, p, view.shape(p.name)) for p in parts]
    builder.node("concat", inputs, [y.name], [axis], (), kernel)


def lower_float(stream: FloatStream, node: Any) -> None:
    axis = attributes(node)["axis"] % len(stream.view.shape(node.output[0]))
    sources: list[str | None] = [stream.source(n) for n in node.input]
    specs = [stream.builder.tensors.get(n or "") for n in sources]
    quantizations = {(spec.scale, spec.zero_point) if spec else None for spec in specs}
    like = (sources[0] or "") if len(quantizations) == 1 else ""  # bytes of one scale keep it
    stream.builder.node("concat", sources, stream.declare(node, like), [axis])
