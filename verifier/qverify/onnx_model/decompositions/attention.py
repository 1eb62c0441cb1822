"""Writes com.microsoft Attention, QAttention and MultiHeadAttention of whole sequences as projections, a softmax of the
scaled products, and a weighted sum of the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute, check_known, input_name

KNOWN = ("num_heads", "unidirectional", "qkv_hidden_sizes", "scale", "mask_filter_value")
ZERO = {"do_rotary": 0, "past_present_share_buffer": 0, "rotary_embedding_dim": 0}
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Heads:
    """Dimensions of an attention.

    batch, queries, keys: sizes of the batch and the two sequences. heads: number of heads. sizes: number of elements of
    a query, a key and a value, over all heads."""

    batch: int
    queries: int
    keys: int
    heads: int
    sizes: tuple[int, int, int]


def attention(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes an Attention (inputs x, weights, bias, mask, past, attention bias) or a QAttention (x, weights, bias,
    scales, mask, zero points, past)."""
    quantized = node.op_type == "QAttention"
    mask, past = (input_name(node, 5), input_name(node, 8)) if quantized else (input_name(node, 3), input_name(node, 4))
    _check(r, node, past)
    batch, length, _ = r.dims(node.input[0])
    whole = r.dims(node.input[1])[1]
    sizes = tuple(attribute(node, "qkv_hidden_sizes", [whole // 3] * 3))
    heads = Heads(batch, length, length, attribute(node, "num_heads", 0), (sizes[0], sizes[1], sizes[2]))
    if quantized:
        x, w, bias, scale_x, scale_w, _, zero_x, zero_w = [input_name(node, i) for i in range(8)]
        operands = [x, w, scale_x, scale_w, zero_x, zero_w, bias]
        projected = r.step("MatMulIntegerToFloat", operands, "projected", MICROSOFT)
    else:
        projected = r.step("MatMul", list(node.input[:2]), "projected")
        if input_name(node, 2):
            projected = r.step("Add", [projected, node.input[2]], "projected_with_bias")
    parts = [r.fresh(n) for n in ("query", "key", "value")]
    cuts = [projected, r.ints("sizes", sizes)] if r.opset >= 13 else [projected]
    more: dict[str, Any] = {} if r.opset >= 13 else {"split": sizes}
    r.nodes.append(onnx.helper.make_node("Split", cuts, parts, f"{parts[0]}/Split", axis=-1, **more))
    _attend(r, node, parts, heads, [_mask(r, node, mask, heads), "" if quantized else input_name(node, 5)])


def several(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes a MultiHeadAttention (inputs query, key, value, bias, padding mask, attention bias; later inputs belong to
    the past)."""
    _check(r, node, "".join(input_name(node, i) for i in range(6, 10)))
    if not input_name(node, 1) or not input_name(node, 2) or any(len(r.dims(n)) != 3 for n in node.input[:3]):
        raise r.refusal("packed operands, or keys and values by heads, are not supported; wanted three of rank 3")
    shapes = [r.dims(n) for n in node.input[:3]]
    heads = Heads(
        shapes[0][0],
        shapes[0][1],
        shapes[1][1],
        attribute(node, "num_heads", 0),
        (shapes[0][2], shapes[1][2], shapes[2][2]),
    )
    parts = list(node.input[:3])
    if input_name(node, 3):
        value = r.value(node.input[3])
        if value is None:
            raise r.refusal("its bias is computed at run time; only constants can be compiled")
        biases = np.split(value, np.cumsum(heads.sizes)[:2])
        parts = [
            r.step("Add", [part, r.constant(f"{what}_bias", bias)], what)
            for part, bias, what in zip(parts, biases, ("query", "key", "value"), strict=True)
        ]
    _attend(r, node, parts, heads, [_mask(r, node, input_name(node, 4), heads), input_name(node, 5)])


def _check(r: Rewriter, node: onnx.NodeProto, past: str) -> None:
    check_known(r, node, *KNOWN, *ZERO)
    for name in ZERO:
        if attribute(node, name, 0):
            raise r.refusal(f"its attribute {name} is not supported; export without it")
    if past or any(r.is_read(at) for at in range(1, len(node.output))):
        raise r.refusal(
            "the past, or a further output, is used; only the first output of whole sequences can be compiled"
        )


def _mask(r: Rewriter, node: onnx.NodeProto, mask: str, heads: Heads) -> str:
    """Returns the tensor that is added to the products for the mask and for unidirectional=1, or "" if there is
    nothing to add. Both are one tensor, as in onnxruntime: their sum could be minus infinity."""
    added, kept = "", _kept(r, node, mask, heads) if mask else ""
    if kept:
        by = r.constant("mask_filter_value", np.float32(attribute(node, "mask_filter_value", -10000.0)))
        added = r.step("Where", [kept, r.constant("zero", np.float32(0)), by], "mask_added")
    if attribute(node, "unidirectional", 0) != 1:
        return added
    if heads.keys > heads.queries:
        raise r.refusal(
            "unidirectional with more keys than queries is not supported, since onnxruntime's result varies"
        )
    # mask keys after the query's own position, as onnxruntime counts it
    later = np.triu(np.ones((heads.queries, heads.keys), np.bool_), 1)
    if not added:
        return r.constant("later", np.where(later, np.float32(LOWEST), np.float32(0)))
    lowest = r.constant("lowest", np.float32(LOWEST))
    return r.step("Where", [r.constant("later", later), lowest, added], "mask_and_later_added")


def _kept(r: Rewriter, node: onnx.NodeProto, mask: str, heads: Heads) -> str:
    """Returns the tensor of booleans that states which keys a mask keeps, by batch, head, query and key, or "" if
    onnxruntime ignores the mask.

    A mask states each key (more than 0: kept), for all queries or for each, or the keys' ends and starts."""
    dims, of_self = r.dims(mask), node.op_type != "MultiHeadAttention"
    by_query = (heads.batch, heads.queries, heads.keys)
    if dims in ((heads.batch, heads.keys), by_query):
        kept = r.step("Greater", [mask, r.constant("none", np.int32(0))], "kept")
        each = [heads.batch, 1, heads.queries if dims == by_query else 1, heads.keys]
        return r.step("Reshape", [kept, r.ints("mask_dims", each)], "kept_by_heads")
    if of_self and dims in ((heads.batch, 1), (1, 1)):
        return ""
    if dims == (2 * heads.batch,) and of_self:
        before = r.step("Less", [_keys(r, heads), _positions(r, mask, heads, 1)], "before_start")
        return r.step("And", [_before_end(r, mask, heads), r.step("Not", [before], "from_start")], "kept")
    if dims in ((heads.batch,), (3 * heads.batch + 2,)):
        return _before_end(r, mask, heads)
    wanted = f"[{heads.batch}, {heads.keys}], {list(by_query)} or [{heads.batch}]"
    raise r.refusal(f"a mask of dims {list(dims)} is not supported; wanted {wanted}")


def _keys(r: Rewriter, heads: Heads) -> str:
    return r.constant("keys", np.arange(heads.keys, dtype=np.int32).reshape(1, 1, 1, -1))


def _positions(r: Rewriter, mask: str, heads: Heads, at: int) -> str:
    """Returns part `at` of a mask of positions, one for each of the batch."""
    cuts = [r.ints("from", [at * heads.batch]), r.ints("to", [(at + 1) * heads.batch])]
    part = r.step("Slice", [mask, *cuts], "positions")
    return r.step("Reshape", [part, r.ints("positions_dims", [heads.batch, 1, 1, 1])], "position_of_each")


def _before_end(r: Rewriter, mask: str, heads: Heads) -> str:
    return r.step("Less", [_keys(r, heads), _positions(r, mask, heads, 0)], "before_end")


def _attend(r: Rewriter, node: onnx.NodeProto, parts: list[str], heads: Heads, added: list[str]) -> None:
    """Writes the attention of a query, a key and a value, each (batch, length, size). added: tensors added to the
    products."""
    lengths, orders = (heads.queries, heads.keys, heads.keys), ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    if not heads.heads or any(size % heads.heads for size in heads.sizes):
        raise r.refusal(f"num_heads={heads.heads} does not divide {list(heads.sizes)}")
    split = []
    for part, length, size, order, what in zip(
        parts, lengths, heads.sizes, orders, ("queries", "keys", "values"), strict=True
    ):
        dims = r.ints(f"{what}_dims", [heads.batch, length, heads.heads, size // heads.heads])
        split.append(r.step("Transpose", [r.step("Reshape", [part, dims], f"{what}_by_head")], what, perm=order))
    scale = attribute(node, "scale", 0.0) or 1.0 / np.sqrt(heads.sizes[0] // heads.heads)
    scores = r.step("MatMul", split[:2], "products")
    scores = r.step("Mul", [scores, r.constant("scale", np.float32(scale))], "scores")
    for at, more in enumerate(filter(None, added)):
        scores = r.step("Add", [scores, more], f"scores_with_{at}")
    shares = r.step("Softmax", [scores], "shares", axis=-1)
    rows = r.step("Transpose", [r.step("MatMul", [shares, split[2]], "sums")], "rows", perm=[0, 2, 1, 3])
    r.node("Reshape", [rows, r.ints("rows_dims", [heads.batch, heads.queries, heads.sizes[2]])], node.output[0])


REPLACED = {
    (MICROSOFT, "Attention"): attention,
    (MICROSOFT, "QAttention"): attention,
    (MICROSOFT, "MultiHeadAttention"): several,
}
