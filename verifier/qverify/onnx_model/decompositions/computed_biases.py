"""Writes Gemm with a bias that is computed as a product and a sum."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute, input_name

OPTIONAL_BIAS = 11  # the opset from which a Gemm may have none


def gemm_and_sum(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Adds beta times the bias to the product. A constant bias stays in the Gemm."""
    bias = input_name(node, 2)
    if not bias or r.is_constant(bias) or r.kind(bias) != onnx.TensorProto.FLOAT:
        return False
    kept = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name != "beta"}
    operands = list(node.input[:2])
    if r.opset < OPTIONAL_BIAS:
        operands.append(r.constant("no_bias", np.float32(0)))
    product = r.step("Gemm", operands, "product", **kept)
    beta = attribute(node, "beta", 1.0)
    if beta != 1:
        bias = r.step("Mul", [bias, r.constant("beta", np.float32(beta))], "scaled_bias")
    r.node("Add", [product, bias], node.output[0])
    return None


REPLACED = {("", "Gemm"): gemm_and_sum}
