"""Writes com.microsoft's small operators around gates: GatedRMSNorm, BranchwiseRMSNorm, ScaledSiLU, GatedAdd and
LinearAttentionGate."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute, check_known, input_name

EPSILON = 1e-5  # onnxruntime's default


def silu(r: Rewriter, x: str, what: str) -> str:
    """Returns x * sigmoid(x)."""
    return r.step("QuickGelu", [x], what, MICROSOFT, alpha=1.0)


def gated_rms_norm(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the normalized x times the activated gate. Inputs: x, scale, gate."""
    check_known(r, node, "activation", "epsilon")
    is_sigmoid = attribute(node, "activation", b"silu") == b"sigmoid"
    gate = r.step("Sigmoid", [node.input[2]], "gate") if is_sigmoid else silu(r, node.input[2], "gate")
    r.node("Mul", [_norm(r, node, node.input[0], node.input[1]), gate], node.output[0])


def branchwise_rms_norm(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the norm of each of num_branches parts of the last dim. Inputs: x, scale (of one part, or of all)."""
    check_known(r, node, "num_branches", "epsilon")
    dims, parts, scale = r.dims(node.input[0]), attribute(node, "num_branches", 1), input_name(node, 1)
    if parts < 1 or dims[-1] % parts:
        raise r.refusal(f"num_branches={parts} does not divide the last dim {dims[-1]}")
    size = dims[-1] // parts
    x = r.step("Reshape", [node.input[0], r.ints("parts_dims", [*dims[:-1], parts, size])], "parts")
    if scale and r.dims(scale) == (size,):
        normed = _norm(r, node, x, scale)
    else:
        normed = _norm(r, node, x, r.constant("ones", np.ones(size, np.float32)))
        if scale:
            scale = r.step("Reshape", [scale, r.ints("scale_dims", [parts, size])], "scale")
            normed = r.step("Mul", [normed, scale], "scaled")
    r.node("Reshape", [normed, r.ints("dims", dims)], node.output[0])


def _norm(r: Rewriter, node: onnx.NodeProto, x: str, scale: str) -> str:
    epsilon = attribute(node, "epsilon", EPSILON)
    return r.step("SimplifiedLayerNormalization", [x, scale], "normed", axis=-1, epsilon=epsilon)


def scaled_silu(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes silu(factor * x): the factor is the input scale, without one alpha (measured on onnxruntime 1.32.0)."""
    check_known(r, node, "alpha")
    factor = input_name(node, 1) or r.constant("alpha", np.float32(attribute(node, "alpha", 1.0)))
    scaled = r.step("Mul", [node.input[0], factor], "scaled")
    r.node("QuickGelu", [scaled], node.output[0], MICROSOFT, alpha=1.0)


def gated_add(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes x + gate * y; onnxruntime computes the form with a gate_weight in bfloat16 only."""
    if input_name(node, 3):
        raise r.refusal("its input gate_weight is not supported; export the gate as a MatMul")
    r.node("Add", [node.input[0], r.step("Mul", [node.input[2], node.input[1]], "gated")], node.output[0])


def linear_attention_gate(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes decay_scale * softplus(a + dt_bias) and sigmoid(b)."""
    moved = r.step("Add", [node.input[0], node.input[1]], "moved")
    r.node("Mul", [node.input[2], r.step("Softplus", [moved], "steps")], node.output[0])
    if r.is_read(1):
        r.node("Sigmoid", [node.input[3]], node.output[1])


REPLACED = {
    (MICROSOFT, "GatedRMSNorm"): gated_rms_norm,
    (MICROSOFT, "BranchwiseRMSNorm"): branchwise_rms_norm,
    (MICROSOFT, "ScaledSiLU"): scaled_silu,
    (MICROSOFT, "GatedAdd"): gated_add,
    (MICROSOFT, "LinearAttentionGate"): linear_attention_gate,
}
