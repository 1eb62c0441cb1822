"""AveragePool -> QLinearAveragePool -> average_pool, or global_average_pool for a window that is the whole image."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from qverify.compiler.attributes import ANY, CHANNELS, WINDOW
from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.global_average_pool import mean_scales
from qverify.compiler.pool_windows import beyond_pads, flat, match_pool, window_pads
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import Activation, LoweredUnit, operand, whole_range
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes
from qverify.onnx_model.windows_beyond_pads import divides_by_part_inside

ONNX_TYPES = {"AveragePool": {**WINDOW, "ceil_mode": ANY, "count_include_pad": ANY}}
OPERATORS = {"QLinearAveragePool": {**ONNX_TYPES["AveragePool"], **CHANNELS}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    attrs = attributes(node)
    dilated = any(d != 1 for d in attrs.get("dilations", [1]))
    inside = attrs.get("count_include_pad", 0) and divides_by_part_inside(view.opset, attrs.get("ceil_mode", 0))
    if dilated or (inside and any(beyond_pads(view, node))):
        return None  # left to average_pool_float, because QLinearAveragePool divides by the whole kernel here
    return match_pool(view, node, y, act, lower)


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    x, y = quantized_input(view, node, 0), quantized_output(view, node, 0, 3)
    return LoweredUnit(y.name, lambda b: lower(b, view, node, x, y, whole_range(y.dtype), True), [node])


def lower(
    builder: Builder, view: GraphView, node: Any, x: QuantizedTensor, y: QuantizedTensor, act: Activation, kernel: bool
) -> None:
    shape, out, attrs = view.shape(x.name), view.shape(y.name), attributes(node)
    window, spatial = attrs["kernel_shape"], len(attrs["kernel_shape"])
    if spatial > 2 or any(d != 1 for d in attrs.get("dilations", [1])):
        raise UnsupportedError(f"{node.name} (AveragePool): {spatial}-D or dilated windows are not supported")
    source = operand(builder, x, shape)
    builder.tensor(y.spec(y.name, out))
    pads = window_pads(node, attrs, shape[2:], out[2:], tuple(window))
    if kernel and tuple(window) == shape[2:] and not any(pads):  # onnxruntime sums integers then, as in a global pool
        rq = mean_scales(builder, x, y, prod(window), kernel)
        builder.node("global_average_pool", [source, rq], [y.name], [act.low, act.high], (), kernel)
        return
    height, width = flat(window, spatial)
    ratio, counts = float(x.scale[0]) / float(y.scale[0]), np.arange(1, height * width + 1, dtype=np.float64)
    if builder.rounding != "ref-exact":
        rq = builder.scales(y.name, counts, ratio / counts, kernel, x.sixteen_bit or y.sixteen_bit)
    elif kernel:
        rq = builder.exact_rq(y.name, np.array([x.scale[0], y.scale[0]], np.float32), ratio / counts)
    else:
        rq = builder.exact_rq(y.name, np.array([ratio]), ratio / counts)
    strides = flat(attrs.get("strides", [1] * spatial), spatial)
    words = [height, width, *strides, *pads, attrs.get("count_include_pad", 0), act.low, act.high]
    builder.node("average_pool", [source, rq], [y.name], words, (), kernel)
