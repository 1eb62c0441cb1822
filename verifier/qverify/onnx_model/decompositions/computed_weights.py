"""Writes a QLinearConv whose weights are computed (a tracker that correlates two pictures) as ConvInteger, a product in
float32 and QuantizeLinear."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.decompositions.volumes import convolution
from qverify.onnx_model.rewriter import Array, Rewriter, input_name

CONSTANTS = {1: "scale of x", 4: "scale of the weights", 6: "scale of y"}


def integer_convolution(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes the sums of products, the bias, the requantization in the order of onnxruntime's, and the rounding."""
    if r.value(node.input[3]) is not None:
        return convolution(r, node)
    scale_x, scale_w, scale_y = (_constant(r, node, at) for at in CONSTANTS)
    x, zero_x, w = (node.input[at] for at in (0, 2, 3))
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    sums = r.step("ConvInteger", [x, w, zero_x, _one_zero_point(r, node.input[5])], "sums", **attributes)
    rank = len(r.dims(node.output[0]))
    if bias := input_name(node, 8):
        dims = r.ints("bias_dims", [1, -1, *[1] * (rank - 2)])
        sums = r.step("Add", [sums, r.step("Reshape", [bias, dims], "bias")], "sums_with_bias")
    factor = (scale_x.reshape(-1) * scale_w.reshape(-1)) / scale_y.reshape(-1)
    factors = r.constant("factors", factor.reshape(1, -1, *[1] * (rank - 2)))
    floats = r.step("Cast", [sums], "sums_in_float32", to=onnx.TensorProto.FLOAT)
    scaled = r.step("Mul", [floats, factors], "scaled")
    r.node("QuantizeLinear", [scaled, r.constant("one", np.float32(1)), node.input[7]], node.output[0])
    return None


def _one_zero_point(r: Rewriter, name: str) -> str:
    """Returns the scalar zero point of all channels: onnxruntime's ConvInteger takes no others."""
    values = r.value(name)
    if values is None or values.size == 1:
        return name
    if (values != values.flat[0]).any():
        raise r.refusal("zero points of channels that differ are not supported where the weights are computed")
    return r.constant("zero_point", values.flat[0])


def _constant(r: Rewriter, node: onnx.NodeProto, at: int) -> Array:
    value = r.value(node.input[at])
    if value is None:
        raise r.refusal(f"its {CONSTANTS[at]} is computed at run time; only constants can be compiled")
    return value.astype(np.float32)


REPLACED = {("", "QLinearConv"): integer_convolution}
