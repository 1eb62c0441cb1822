"""com.microsoft's products and sums with an activation: FusedConv, FusedGemm, BiasGelu, FastGelu with a bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute, check_known, input_name

# activation to its ONNX type and the attributes for its parameters
ACTIVATIONS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}  # fmt: skip
WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
PRODUCT = ("alpha", "beta", "transA", "transB")


def fused_conv(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes a FusedConv: Conv of X, W and B, plus Z, then the activation."""
    check_known(r, node, *WINDOW, "activation", "activation_params")
    name = attribute(node, "activation", b"").decode(errors="replace")
    parameters = [float(p) for p in attribute(node, "activation_params", ())]
    added, kept = input_name(node, 3), _attributes(node, WINDOW)
    to = r.fresh("convolution") if name or added else node.output[0]
    r.node("Conv", list(node.input[:3]), to, **kept)
    if added:
        to = r.node("Add", [to, added], r.fresh("sum") if name else node.output[0])
    if name:
        _activate(r, to, name, parameters, node.output[0])


def fused_gemm(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes a FusedGemm: Gemm, then the activation."""
    check_known(r, node, *PRODUCT, "activation", "activation_alpha", "activation_beta", "activation_gamma")
    name, named = attribute(node, "activation", b"").decode(errors="replace"), ("activation_alpha", "activation_beta")
    parameters = [float(attribute(node, n, np.nan)) for n in named]
    to = r.node("Gemm", list(node.input), r.fresh("product") if name else node.output[0], **_attributes(node, PRODUCT))
    if name:
        count = len([p for p in parameters if not np.isnan(p)])
        _activate(r, to, name, parameters[:count], node.output[0])


def _activate(r: Rewriter, source: str, name: str, parameters: list[float], to: str) -> None:
    """Writes the activation. Raises UnsupportedError for one that onnxruntime does not fuse."""
    if name not in ACTIVATIONS or len(parameters) > len(ACTIVATIONS[name]):
        raise r.refusal(f"activation={name} with {len(parameters)} parameters is not supported; export without fusing")
    if name == "Clip":
        bounds = zip(("min", "max"), parameters, strict=False)
        r.node("Clip", [source, *(r.constant(n, np.float32(p)) for n, p in bounds)], to)
    else:
        named: dict[str, Any] = dict(zip(ACTIVATIONS[name], parameters, strict=False))
        r.node(name, [source], to, **named)


def bias_gelu(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes the sum with the bias, then Gelu or FastGelu. A FastGelu without a bias is left alone."""
    bias = input_name(node, 1)
    if not bias:
        return False
    kind = "FastGelu" if node.op_type == "FastGelu" else "Gelu"
    r.node(kind, [r.step("Add", [node.input[0], bias], "sum")], node.output[0], MICROSOFT)
    return None


def _attributes(node: onnx.NodeProto, names: tuple[str, ...]) -> dict[str, Any]:
    return {n: attribute(node, n, None) for n in names if attribute(node, n, None) is not None}


REPLACED = {
    (MICROSOFT, "FusedConv"): fused_conv,
    (MICROSOFT, "FusedGemm"): fused_gemm,
    (MICROSOFT, "BiasGelu"): bias_gelu,
    (MICROSOFT, "FastGelu"): bias_gelu,
}
