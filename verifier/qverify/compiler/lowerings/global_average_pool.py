"""GlobalAveragePool -> QLinearGlobalAveragePool -> global_average_pool; on a float stream it is a reduce_mean."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from qverify.compiler.attributes import CHANNELS
from qverify.compiler.builder import Builder
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.pool_windows import match_pool
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import Activation, LoweredUnit, operand, whole_range
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor

ONNX_TYPES: dict[str, Any] = {"GlobalAveragePool": {}}
OPERATORS = {"QLinearGlobalAveragePool": CHANNELS}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    return match_pool(view, node, y, act, lower)


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    x, y = quantized_input(view, node, 0), quantized_output(view, node, 0, 3)
    return LoweredUnit(y.name, lambda b: lower(b, view, node, x, y, whole_range(y.dtype), True), [node])


def lower(
    builder: Builder, view: GraphView, node: Any, x: QuantizedTensor, y: QuantizedTensor, act: Activation, kernel: bool
) -> None:
    shape = view.shape(x.name)
    source = operand(builder, x, shape)
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    rq = mean_scales(builder, x, y, prod(shape[2:]), kernel)
    builder.node("global_average_pool", [source, rq], [y.name], [act.low, act.high], (), kernel)


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    words = [sum(1 << a for a in range(2, len(stream.view.shape(node.input[0])))), 0, 0]
    inputs: list[str | None] = [stream.source(node.input[0]), None]
    stream.builder.node("reduce_mean", inputs, stream.declare(node), words, (), False)


def mean_scales(builder: Builder, x: QuantizedTensor, y: QuantizedTensor, count: int, kernel: bool) -> str:
    """Adds the `rq` constant that turns a sum over `count` elements into their mean, and returns its name."""
    single = np.float32(x.scale[0]) / np.float32(np.float32(y.scale[0]) * np.float32(count))
    real = float(x.scale[0]) / (float(y.scale[0]) * count)
    return builder.scales(y.name, np.array([single]), np.array([real]), kernel, x.sixteen_bit or y.sixteen_bit)
