"""Writes com.microsoft's mixtures of experts, MoE and QMoE: all experts, of which the router gives some a share of 0."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx

from qverify.onnx_model.packed_bits import unpack
from qverify.onnx_model.rewriter import MICROSOFT, Array, Rewriter, attribute, check_known, input_name

KNOWN = ("k", "activation_type", "normalize_routing_weights", "activation_alpha", "activation_beta", "swiglu_limit")
PLAIN = {  # attributes with the values that change nothing
    "use_sparse_mixer": (0,),
    "swiglu_limit_after_activation": (0,),
    "weights_prepacked": (-1, 0),
    "quant_type": (b"int",),
}
OF_WEIGHTS = ("swiglu_fusion", "expert_weight_bits", "block_size", "accuracy_level")
BITS = (4, 8)
MAX_WEIGHTS = 1 << 28  # of all experts together, as float32 a GiB
INPUTS = {"MoE": (2, 3, 4, 5), "QMoE": (2, 4, 5, 7)}  # weights and bias of both layers


def expert_mixture(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the sum over the experts of share * (act(x W1' + b1) W2' + b2). Shares are the softmax of the router's k
    largest scores (normalize_routing_weights=1), or those that these have of the softmax of all. Inputs: x (..., size),
    scores (rows, experts), weights, and in a QMoE scales and zero points of them."""
    check_known(r, node, *KNOWN, *PLAIN, *OF_WEIGHTS)
    for name, values in PLAIN.items():
        if attribute(node, name, values[0]) not in values:
            raise r.refusal(f"its attribute {name} is not supported; export without it")
    if attribute(node, "normalize_routing_weights", 0) not in ((0, 1) if node.op_type == "MoE" else (1,)):
        raise r.refusal("this normalize_routing_weights is not supported; wanted 0 or 1, of a QMoE 1")
    dims, (rows, experts) = r.dims(node.input[0]), r.dims(node.input[1])
    first, second = _weights(r, node, 0), _weights(r, node, 1)
    if first.size + second.size > MAX_WEIGHTS:
        raise r.refusal(
            f"{first.size + second.size} weights of all experts are not written out; at most {MAX_WEIGHTS} are"
        )
    shares = r.step("Transpose", [_shares(r, node, rows, experts)], "shares_by_expert", perm=[1, 0])
    x = r.step("Reshape", [node.input[0], r.ints("rows_dims", [rows, dims[-1]])], "rows")
    hidden = _layer(r, node, x, first, 0)
    out = _layer(r, node, _activated(r, node, hidden), second, 1)
    column = r.step("Reshape", [shares, r.ints("shares_dims", [experts, rows, 1])], "share")
    weighted = r.step("Mul", [out, column], "weighted")
    total = r.step("ReduceSum", [weighted, r.ints("experts_axis", [0])], "total", keepdims=0)
    r.node("Reshape", [total, r.ints("output_dims", dims)], node.output[0])


def _shares(r: Rewriter, node: onnx.NodeProto, rows: int, experts: int) -> str:
    """Returns the share of each expert in each row, 0 of those that are not among the k of the largest scores."""
    number, scores = attribute(node, "k", 1), node.input[1]
    values, places = r.fresh("largest"), r.fresh("chosen")
    count = r.ints("k", [number])
    r.nodes.append(onnx.helper.make_node("TopK", [scores, count], [values, places], f"{node.name}/{values}", axis=-1))
    if attribute(node, "normalize_routing_weights", 0):
        of_chosen = r.step("Softmax", [values], "shares_of_chosen", axis=-1)
    else:
        of_all = r.step("Softmax", [scores], "shares_of_all", axis=-1)
        of_chosen = r.step("GatherElements", [of_all, places], "shares_of_chosen", axis=-1)
    nothing = r.constant("nothing", np.zeros((rows, experts), np.float32))
    return r.step("ScatterElements", [nothing, places, of_chosen], "shares", axis=1)


def _layer(r: Rewriter, node: onnx.NodeProto, x: str, weights: Array, at: int) -> str:
    """Returns x times the weights of each expert, plus its bias: (experts, rows, size)."""
    what = ("first", "second")[at]
    matrix = r.constant(f"{what}_weights", np.ascontiguousarray(weights.swapaxes(1, 2)))
    out = r.step("MatMul", [x, matrix], f"{what}_products")
    if bias := input_name(node, INPUTS[node.op_type][2 * at + 1]):
        row = r.step(
            "Reshape", [bias, r.ints(f"{what}_bias_dims", [len(weights), 1, weights.shape[1]])], f"{what}_bias"
        )
        out = r.step("Add", [out, row], f"{what}_sums")
    return out


def _activated(r: Rewriter, node: onnx.NodeProto, x: str) -> str:
    kind, fusion = attribute(node, "activation_type", b"relu"), attribute(node, "swiglu_fusion", 0)
    if kind == b"swiglu" and fusion == 1:
        return _swiglu(r, node, x)
    if kind == b"silu":
        return r.step("QuickGelu", [x], "activated", MICROSOFT, alpha=1.0)
    if kind == b"gelu":  # the approximation by tanh: measured on onnxruntime 1.32.0
        return r.step("FastGelu", [x], "activated", MICROSOFT)
    if kind == b"relu":
        return r.step("Relu", [x], "activated")
    if kind == b"identity":
        return x
    raise r.refusal(f"activation_type={kind.decode(errors='replace')} with swiglu_fusion={fusion} is not supported")


def _swiglu(r: Rewriter, node: onnx.NodeProto, x: str) -> str:
    """Returns g * sigmoid(alpha g) * (l + beta) of neighbours g and l, both limited before."""
    gate, linear = (_every_other(r, x, at, what) for at, what in enumerate(("gate", "linear")))
    limit = attribute(node, "swiglu_limit", None)
    if limit is not None and limit > 0:
        most, least = (r.constant(n, np.float32(v)) for n, v in (("limit", limit), ("lowest", -limit)))
        gate = r.step("Min", [gate, most], "limited_gate")
        linear = r.step("Clip", [linear, least, most], "limited_linear")
    gate = r.step("QuickGelu", [gate], "open", MICROSOFT, alpha=attribute(node, "activation_alpha", 1.0))
    moved = r.step("Add", [linear, r.constant("beta", np.float32(attribute(node, "activation_beta", 0.0)))], "moved")
    return r.step("Mul", [gate, moved], "activated")


def _every_other(r: Rewriter, x: str, first: int, what: str) -> str:
    ends = (("from", first), ("to", np.iinfo(np.int64).max), ("axis", 2), ("step", 2))
    return r.step("Slice", [x, *(r.ints(f"{what}_{name}", [value]) for name, value in ends)], what)


def _weights(r: Rewriter, node: onnx.NodeProto, at: int) -> Array:
    """Returns the float32 weights of a layer: (experts, size of the output, size of the input)."""
    value = r.value(node.input[INPUTS[node.op_type][2 * at]])
    third = 6 if node.op_type == "MoE" else 8
    if value is None or input_name(node, third):
        raise r.refusal("weights that are computed, and a third layer, are not supported")
    if node.op_type == "MoE":
        return value
    bits, block = attribute(node, "expert_weight_bits", 4), attribute(node, "block_size", 0)
    scales = r.value(input_name(node, (3, 6)[at]))
    if bits not in BITS or scales is None or scales.dtype != np.float32 or any(node.input[14:]):
        raise r.refusal("wanted weights of 4 or 8 bits with constant scales of float32, and no further inputs")
    if block and (bits == 8 or attribute(node, "accuracy_level", 0) == 4):  # measured on onnxruntime 1.32.0
        raise r.refusal(
            f"of weights of {bits} bits in blocks, onnxruntime rounds the activations to 8 bits (accuracy_level "
            f"{attribute(node, 'accuracy_level', 0)}), which is not supported"
        )
    whole = unpack(value.reshape(prod(value.shape[:2]), -1), bits).reshape(*value.shape[:2], -1)
    blocks = whole.shape[2] // block if block else 1
    zeros: Array = np.full((*value.shape[:2], blocks), 1 << (bits - 1), np.float32)
    if name := input_name(node, 11 + at):
        stored = r.value(name)
        if stored is None or not block:
            raise r.refusal("zero points are supported as constants, beside a block_size")
        zeros = unpack(stored.reshape(prod(value.shape[:2]), -1), bits)[:, :blocks].reshape(zeros.shape)
    real = whole.reshape(*value.shape[:2], blocks, -1).astype(np.float32) - zeros.astype(np.float32)[..., None]
    return np.asarray((real * scales.reshape(*value.shape[:2], blocks, 1)).reshape(whole.shape), np.float32)


REPLACED = {(MICROSOFT, kind): expert_mixture for kind in INPUTS}
