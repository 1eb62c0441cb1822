"""com.microsoft's sums with a normalization: SkipLayerNormalization, SkipSimplifiedLayerNormalization and
EmbedLayerNormalization."""

from __future__ import annotations

import numpy as np
import onnx

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
    """Writes the sum of the rows for words, positions and segments (output 2), then a LayerNormalization of it."""
    check_known(r, node, "epsilon", "mask_index_type")
    if r.is_read(1):
        raise r.refusal("its mask_index is used; only the normalized output and the sum can be compiled")
    words, segments, word_table, position_table, segment_table, scale, bias = [input_name(node, i) for i in range(7)]
    _, length = r.dims(words)
    positions = input_name(node, 8) or r.ints("positions", np.arange(length)[None])
    parts = [
        r.step("Gather", [word_table, words], "words"),
        r.step("Gather", [position_table, positions], "positions_of"),
    ]
    if segments:
        parts.append(r.step("Gather", [segment_table, segments], "segments"))
    total, last = parts[0], node.output[2] if r.is_read(2) else r.fresh("sum")
    for at, part in enumerate(parts[1:], 1):
        total = r.node("Add", [total, part], last if at == len(parts) - 1 else r.fresh("sum_of_two"))
    r.node(
        "LayerNormalization", [total, scale, bias], node.output[0], axis=-1, epsilon=attribute(node, "epsilon", EPSILON)
    )


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
}
