"""com.microsoft's sums with a normalization: SkipLayerNormalization, SkipSimplifiedLayerNormalization,
EmbedLayerNormalization and QEmbedLayerNormalization."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.opsets import quantizer_domain
from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute, check_known, input_name

EPSILON = 1e-12  # onnxruntime's default for EmbedLayerNormalization; the other operators must state theirs


def skip_layer_norm(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes input + skip + bias (output 3), then a LayerNormalization or RMSNormalization of it over the last axis."""
    check_known(r, node, "epsilon")
    if any(r.is_read(at) for at in (1, 2)):
        raise r.refusal("its mean or inv_std_var is used; only the normalized output and the sum can be compiled")
    simple = node.op_type == "SkipSimplifiedLayerNormalization"
    bias, scale = input_name(node, 3 if simple else 4), [node.input[2], "" if simple else input_name(node, 3)]
    last = node.output[3] if r.is_read(3) else r.fresh("sum")
    first = r.fresh("sum_without_bias") if bias else last
    r.node("Add", [node.input[0], node.input[1]], first)
    if bias:
        r.node("Add", [first, bias], last)
    kind = "SimplifiedLayerNormalization" if simple else "LayerNormalization"
    r.node(kind, [last, *scale], node.output[0], axis=-1, epsilon=attribute(node, "epsilon", EPSILON))


def embed_layer_norm(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the sum of the rows for words, positions and segments (output 2), then a LayerNormalization of it.
    Tables, scale and bias of a QEmbedLayerNormalization are quantized."""
    check_known(r, node, "epsilon", "mask_index_type")
    quantized = node.op_type == "QEmbedLayerNormalization"
    words, segments = input_name(node, 0), input_name(node, 1)
    batch, length = r.dims(words)
    positions = "" if quantized else input_name(node, 8)
    positions = positions or r.ints("positions", np.arange(length)[None])
    parts = []
    for at, places, what in ((2, words, "words"), (3, positions, "positions_of"), (4, segments, "segments")):
        if places:
            rows = r.step("Gather", [node.input[at], places], f"{what}_integer" if quantized else what)
            parts.append(_real(r, node, at, rows, what) if quantized else rows)
    scale, bias = node.input[5], node.input[6]
    if quantized:
        scale, bias = _real(r, node, 5, scale, "scale"), _real(r, node, 6, bias, "bias")
    total, last = parts[0], node.output[2] if r.is_read(2) else r.fresh("sum")
    for at, part in enumerate(parts[1:], 1):
        total = r.node("Add", [total, part], last if at == len(parts) - 1 else r.fresh("sum_of_two"))
    r.node(
        "LayerNormalization", [total, scale, bias], node.output[0], axis=-1, epsilon=attribute(node, "epsilon", EPSILON)
    )
    if r.is_read(1):
        _count_ones(r, input_name(node, 7), batch, node.output[1])


def _real(r: Rewriter, node: onnx.NodeProto, at: int, integers: str, what: str) -> str:
    """Dequantizes integers that come from input number `at` of a QEmbedLayerNormalization. Its scale is input at + 6,
    its zero point input at + 11."""
    scale, zero = r.value(node.input[at + 6]), r.value(node.input[at + 11])
    if scale is None or zero is None:
        raise r.refusal("a scale or zero point is computed at run time; only constants can be compiled")
    by = [r.constant(f"{what}_scale", scale.reshape(())), r.constant(f"{what}_zero_point", zero.reshape(()))]
    return r.step("DequantizeLinear", [integers, *by], what, quantizer_domain(r.opset))


def _count_ones(r: Rewriter, mask: str, batch: int, to: str) -> None:
    """Writes a mask_index: how many ones each row of the mask has; without a mask 0."""
    if not mask:
        r.node("Identity", [r.constant("no_mask", np.zeros(batch, np.int32))], to)
        return
    ones = r.step("Equal", [mask, r.constant("one", np.int32(1))], "is_one")
    each = r.step("Cast", [ones], "ones", to=int(onnx.TensorProto.INT32))
    if r.opset < 13:
        r.node("ReduceSum", [each], to, axes=[1], keepdims=0)
    else:
        r.node("ReduceSum", [each, r.ints("mask_axes", [1])], to, keepdims=0)


def layer_norm_with_statistics(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes the mean and 1 / sqrt(variance + epsilon), where they are read, beside a LayerNormalization without
    them."""
    if not (r.is_read(1) or r.is_read(2)):
        return False
    rank = len(r.dims(node.input[0]))
    first = attribute(node, "axis", -1) % rank
    epsilon = r.constant("epsilon", np.array(attribute(node, "epsilon", 1e-5), np.float32))
    mean = _mean(r, node.input[0], list(range(first, rank)), node.output[1] if r.is_read(1) else r.fresh("mean"))
    if r.is_read(2):
        apart = r.step("Sub", [node.input[0], mean], "apart")
        variance = _mean(r, r.step("Mul", [apart, apart], "square"), list(range(first, rank)), r.fresh("variance"))
        deviation = r.step("Sqrt", [r.step("Add", [variance, epsilon], "raised")], "deviation")
        r.node("Reciprocal", [deviation], node.output[2])
    alone = onnx.NodeProto.FromString(node.SerializeToString())
    del alone.output[1:]
    r.nodes.append(alone)
    return None


def _mean(r: Rewriter, x: str, axes: list[int], to: str) -> str:
    """Writes the mean along these axes, which are kept, and returns its name."""
    if r.opset < 18:
        return r.node("ReduceMean", [x], to, axes=axes, keepdims=1)
    return r.node("ReduceMean", [x, r.ints("mean_axes", axes)], to, keepdims=1)


REPLACED = {
    ("", "LayerNormalization"): layer_norm_with_statistics,
    (MICROSOFT, "SkipLayerNormalization"): skip_layer_norm,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): skip_layer_norm,
    (MICROSOFT, "EmbedLayerNormalization"): embed_layer_norm,
    (MICROSOFT, "QEmbedLayerNormalization"): embed_layer_norm,
}
