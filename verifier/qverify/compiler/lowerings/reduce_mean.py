"""ReduceMean -> reduce_mean, of integers or floats; it stays float in the integer ONNX."""

from __future__ import annotations

from math import prod
from typing import Any

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.global_average_pool import mean_scales
from qverify.compiler.unit import Activation, LoweredUnit, operand
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

ONNX_TYPES = {"ReduceMean": {"axes": ANY, "keepdims": ANY, "noop_with_empty_axes": ANY}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    x = view.dequantized(node.input[0])
    if x is None or x.value is not None or max(len(x.scale), len(y.scale)) > 1:
        return None
    return LoweredUnit(y.name, lambda b: lower(b, view, node, x, y, act))


def lower(
    builder: Builder, view: GraphView, node: Any, x: QuantizedTensor, y: QuantizedTensor, act: Activation
) -> None:
    shape = view.shape(x.name)
    source = operand(builder, x, shape)
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    axes = reduced_axes(view, node, len(shape))
    rq = mean_scales(builder, x, y, prod(shape[a] for a in axes), False)
    words = [sum(1 << a for a in axes), act.low, act.high]
    builder.node("reduce_mean", [source, rq], [y.name], words, (), False)


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    axes = reduced_axes(stream.view, node, len(stream.view.shape(node.input[0])))
    words = [sum(1 << a for a in axes), 0, 0]
    inputs: list[str | None] = [stream.source(node.input[0]), None]
    stream.builder.node("reduce_mean", inputs, stream.declare(node), words, (), False)


def reduced_axes(view: GraphView, node: Any, rank: int) -> list[int]:
    """Returns the axes of a reduction: from its second input (opset 18), its attribute, or all, or with
    noop_with_empty_axes none. Raises UnsupportedError."""
    axes: Any = attributes(node).get("axes", [])
    if len(node.input) > 1 and node.input[1]:
        if node.input[1] not in view.constants:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): its axes are computed at run time; only constants can be compiled"
            )
        axes = view.constants[node.input[1]].tolist()
    every = [] if attributes(node).get("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({int(a) % rank for a in axes}) or every
