"""Writes arithmetic and comparisons of 16-bit integers as those of int32, BitShift as Mul and Div, powers of integers as
Mul."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from qverify.onnx_model.rewriter import Rewriter, attribute

INT32 = onnx.TensorProto.INT32
SIXTEEN = (onnx.TensorProto.INT16, onnx.TensorProto.UINT16)
WIDE = (INT32, onnx.TensorProto.INT64)
KINDS = (
    "Abs",
    "Add",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Mul",
    "Neg",
    "Sign",
    "Sub",
)  # fmt: skip; Div and Mod are in computed_divisors.py, Max and Min in integer_extrema.py, Clip in computed_limits.py
BITS: dict[int, int] = {onnx.TensorProto.UINT8: 8, onnx.TensorProto.UINT16: 16}


def in_int32(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Casts to int32 and the result back to its low bits."""
    if r.kind(node.input[0]) not in SIXTEEN:
        return False
    inputs = [r.step("Cast", [name], "int32", to=INT32) if name else "" for name in node.input]
    kind, attributes = r.kind(node.output[0]), {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if kind not in SIXTEEN:
        r.node(node.op_type, inputs, node.output[0], **attributes)
        return None
    r.node("Cast", [r.step(node.op_type, inputs, "as_int32", **attributes)], node.output[0], to=kind)
    return None


def shift(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Multiplies, or divides, by powers of two; shifts must be constants below the number of bits."""
    x, by = node.input
    kind, count = r.kind(x), r.value(by)
    if kind not in BITS or count is None or (count >= BITS[kind]).any():
        raise r.refusal("wanted uint8 or uint16, and constant shifts below the number of bits")
    powers = r.constant("powers", (1 << count.astype(np.int64)).astype(count.dtype))
    left = attribute(node, "direction", b"") == b"LEFT"
    r.node("Mul" if left else "Div", [x, powers], node.output[0])
    return None


def power(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Multiplies for the exponents 2 and 3; onnxruntime computes others in float64."""
    x, exponent = node.input
    value = r.value(exponent)
    if r.kind(x) not in WIDE or value is None or value.size != 1 or value.item() not in (2, 3):
        return False
    if len(r.dims(exponent)) > len(r.dims(x)):
        return False
    square = node.output[0] if value.item() == 2 else r.fresh("square")
    r.node("Mul", [x, x], square)
    if value.item() == 3:
        r.node("Mul", [square, x], node.output[0])
    return None


REPLACED = {**{("", kind): in_int32 for kind in KINDS}, ("", "BitShift"): shift, ("", "Pow"): power}
