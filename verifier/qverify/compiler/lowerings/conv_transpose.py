"""ConvTranspose -> conv_transpose; it stays float in the integer ONNX."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import ANY, WINDOW
from qverify.compiler.linear_layers import integer_bias, tiled_for_groups
from qverify.compiler.lowerings.conv import convolution, float_convolution
from qverify.compiler.unit import Activation, LoweredUnit
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

ONNX_TYPES = {"ConvTranspose": {**WINDOW, "group": ANY, "output_padding": ANY, "output_shape": ANY}}


def match(view: GraphView, node: Any, y: QuantizedTensor, act: Activation) -> LoweredUnit | None:
    x, w = view.dequantized(node.input[0]), view.dequantized(node.input[1])
    if x is None or w is None or w.value is None or len(x.scale) > 1 or len(y.scale) > 1:
        return None
    if len(w.scale) > 1 and w.axis != 1:
        return None  # without a scale per output channel; left to conv_transpose_float
    wide = x.sixteen_bit or w.sixteen_bit or y.sixteen_bit
    steps = tiled_for_groups(w, attributes(node).get("group", 1))
    bias, _, _ = integer_bias(view, node, node.input[2] if len(node.input) > 2 else "", x, steps, wide, False)
    return LoweredUnit(y.name, lambda b: convolution(b, view, node, "conv_transpose", x, w, bias, y, act, False))


def match_float(view: GraphView, node: Any) -> LoweredUnit | None:
    return float_convolution(view, node, "conv_transpose")
