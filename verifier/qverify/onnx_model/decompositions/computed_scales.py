"""Writes QuantizeLinear and DequantizeLinear whose scale or zero point is computed as float32 arithmetic: dynamic
quantization, and scales of each token."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute, input_name

FLOAT = onnx.TensorProto.FLOAT
ROUND = 11  # the opset from which there is Round
LIMITS = {  # of the types whose differences float32 holds exactly
    int(onnx.TensorProto.UINT8): np.iinfo(np.uint8),
    int(onnx.TensorProto.INT8): np.iinfo(np.int8),
    int(onnx.TensorProto.UINT16): np.iinfo(np.uint16),
    int(onnx.TensorProto.INT16): np.iinfo(np.int16),
}


def dequantize(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes fl32((q - z) s)."""
    if not _is_computed(r, node) or r.kind(node.input[0]) not in LIMITS:
        return False
    if attribute(node, "output_dtype", 0) not in (0, FLOAT):
        return False
    scale, zero = _parameters(r, node)
    values = r.step("Cast", [node.input[0]], "float", to=FLOAT)
    if zero:
        values = r.step("Sub", [values, zero], "centred")
    r.node("Mul", [values, scale], node.output[0])
    return None


def quantize(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes the nearest integer (ties to even) of fl32(x / s), plus z, within the limits of the type; NaN becomes the
    lowest, as in onnxruntime on x86-64."""
    zero_name = input_name(node, 2)
    kind = r.kind(zero_name) if zero_name else attribute(node, "output_dtype", 0) or onnx.TensorProto.UINT8
    if not _is_computed(r, node) or kind not in LIMITS or r.kind(node.input[0]) != FLOAT or r.opset < ROUND:
        return False
    scale, zero = _parameters(r, node)
    values = r.step("Round", [r.step("Div", [node.input[0], scale], "scaled")], "rounded")
    if zero:
        values = r.step("Add", [values, zero], "moved")
    low, high = (r.constant(what, np.float32(getattr(LIMITS[kind], what))) for what in ("min", "max"))
    values = r.step("Where", [r.step("Greater", [values, low], "above_min"), values, low], "raised")
    r.node("Cast", [r.step("Min", [values, high], "limited")], node.output[0], to=kind)
    return None


def _is_computed(r: Rewriter, node: onnx.NodeProto) -> bool:
    """Returns whether the scale or the zero point is computed, in float32 and as one number or one for each place of the
    axis."""
    names = [n for n in node.input[1:3] if n]
    if all(n in r.initializers for n in names) or r.kind(names[0]) != FLOAT:
        return False
    if attribute(node, "block_size", 0) or attribute(node, "precision", 0) not in (0, FLOAT):
        return False
    shape, dims = r.dims(node.input[0]), r.dims(names[0])
    along = shape[attribute(node, "axis", 1) % len(shape)] if len(dims) == 1 and shape else 1
    return dims in ((), (1,), (along,)) and all(r.dims(n) == dims for n in names)


def _parameters(r: Rewriter, node: onnx.NodeProto) -> tuple[str, str]:
    """Returns the names of the scale and of the zero point as float32, in a shape that broadcasts along the axis; "" for
    no zero point."""
    zero = input_name(node, 2)
    dims, rank = r.dims(node.input[1]), len(r.dims(node.input[0]))
    shape = [1] * rank
    if dims not in ((), (1,)):
        shape[attribute(node, "axis", 1) % rank] = dims[0]

    def broadcast(name: str, what: str) -> str:
        return r.step("Reshape", [name, r.ints(f"{what}_dims", shape)], what) if dims else name

    zero = r.step("Cast", [zero], "zero", to=FLOAT) if zero else ""
    return broadcast(node.input[1], "scale"), broadcast(zero, "zeros") if zero else ""


REPLACED = {("", "DequantizeLinear"): dequantize, ("", "QuantizeLinear"): quantize}
