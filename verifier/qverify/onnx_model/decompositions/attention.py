"""Writes com.microsoft Attention, QAttention and MultiHeadAttention as projections, keys and values behind those of the
past, a softmax of the scaled products, and a weighted sum of the values."""

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

    batch, queries, keys: sizes of the batch and the two sequences, the keys with those of the past. heads: number of
    heads. sizes: number of elements of a query, a key and a value, over all heads. past: number of keys of the past."""

    batch: int
    queries: int
    keys: int
    heads: int
    sizes: tuple[int, int, int]
    past: int = 0

    def dims(self, part: int, length: int) -> list[int]:
        """Returns the dims (batch, length, heads, size) of the queries (0), keys (1) or values (2)."""
        return [self.batch, length, self.heads, self.sizes[part] // self.heads]


def attention(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes an Attention (inputs x, weights, bias, mask, past, attention bias) or a QAttention (x, weights, bias,
    scales, mask, zero points, past)."""
    quantized = node.op_type == "QAttention"
    mask, past = (input_name(node, 5), input_name(node, 8)) if quantized else (input_name(node, 3), input_name(node, 4))
    _check(r, node, "" if quantized else input_name(node, 6))
    batch, length, _ = r.dims(node.input[0])
    whole = r.dims(node.input[1])[1]
    sizes = tuple(attribute(node, "qkv_hidden_sizes", [whole // 3] * 3))
    before = r.dims(past)[3] if past else 0
    heads = _heads(r, node, batch, length, length + before, (sizes[0], sizes[1], sizes[2]), before)
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
    keys_values = _keys_values(r, heads, parts[1:], _halves(r, past) if past else ["", ""])
    if r.is_read(1):
        axis = r.ints("first_axis", [0])
        states = (
            [r.step("Unsqueeze", [part, axis], "state") for part in keys_values]
            if r.opset >= 13
            else [r.step("Unsqueeze", [part], "state", axes=[0]) for part in keys_values]
        )
        r.node("Concat", states, node.output[1], axis=0)
    _attend(
        r,
        node,
        [parts[0], *keys_values],
        heads,
        ["" if quantized else input_name(node, 5), _mask(r, node, mask, heads)],
    )


def several(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes a MultiHeadAttention (inputs query, key, value, bias, padding mask, attention bias, keys and values of the
    past). Keys and values of rank 4 are by heads, as those of another sequence that a decoder keeps; no bias is added
    to them."""
    _check(r, node, input_name(node, 8) or input_name(node, 9))
    ranks = [len(r.dims(name)) if name else 0 for name in (input_name(node, i) for i in range(3))]
    pasts = [input_name(node, 6), input_name(node, 7)]
    kept = ranks == [3, 4, 4] and pasts == ["", ""]
    if (ranks != [3, 3, 3] and not kept) or bool(pasts[0]) != bool(pasts[1]):
        raise r.refusal("packed operands are not supported; wanted query, key and value, each of rank 3")
    if pasts[0] and not all(len(node.output) > at and node.output[at] for at in (1, 2)):
        raise r.refusal(
            "it has a past, but not both presents as outputs, for which onnxruntime's result is not defined. Export it with "
            "present_key and present_value"
        )
    query, key, value = (r.dims(n) for n in node.input[:3])
    if kept:
        sizes = (query[2], key[1] * key[3], value[1] * value[3])
        heads = _heads(r, node, query[0], query[1], key[2], sizes)
    else:
        before = r.dims(pasts[0])[2] if pasts[0] else 0
        heads = _heads(r, node, query[0], query[1], key[1] + before, (query[2], key[2], value[2]), before)
    parts = _biased(r, node, heads, 1 if kept else 3)
    keys_values = parts[1:] if kept else _keys_values(r, heads, parts[1:], pasts)
    for at, part in enumerate(keys_values):
        if r.is_read(at + 1):
            r.node("Identity", [part], node.output[at + 1])
    _attend(r, node, [parts[0], *keys_values], heads, [input_name(node, 5), _mask(r, node, input_name(node, 4), heads)])


def _biased(r: Rewriter, node: onnx.NodeProto, heads: Heads, count: int) -> list[str]:
    """Returns query, key and value, the first `count` of them with their part of the constant bias added."""
    parts = list(node.input[:3])
    if not input_name(node, 3):
        return parts
    value = r.value(node.input[3])
    if value is None:
        raise r.refusal("its bias is computed at run time; only constants can be compiled")
    biases = np.split(value, np.cumsum(heads.sizes)[:2])
    for at, what in enumerate(("query", "key", "value")[:count]):
        parts[at] = r.step("Add", [parts[at], r.constant(f"{what}_bias", biases[at])], what)
    return parts


def _heads(
    r: Rewriter, node: onnx.NodeProto, batch: int, queries: int, keys: int, sizes: tuple[int, int, int], past: int = 0
) -> Heads:
    heads = Heads(batch, queries, keys, attribute(node, "num_heads", 0), sizes, past)
    if not heads.heads or any(size % heads.heads for size in heads.sizes):
        raise r.refusal(f"num_heads={heads.heads} does not divide {list(heads.sizes)}")
    return heads


def _keys_values(r: Rewriter, heads: Heads, parts: list[str], pasts: list[str]) -> list[str]:
    """Returns keys and values (batch, heads, keys, size), behind those of the past where there are any. parts: those of
    this step (batch, keys - past, all heads' size)."""
    by_heads = []
    for at, (part, past, what) in enumerate(zip(parts, pasts, ("keys", "values"), strict=True), 1):
        dims = r.ints(f"{what}_dims", heads.dims(at, heads.keys - heads.past))
        part = r.step("Transpose", [r.step("Reshape", [part, dims], f"{what}_by_head")], what, perm=[0, 2, 1, 3])
        by_heads.append(r.step("Concat", [past, part], f"{what}_with_past", axis=2) if past else part)
    return by_heads


def _halves(r: Rewriter, past: str) -> list[str]:
    """Returns the keys and the values (batch, heads, length, size) of a past (2, batch, heads, length, size)."""
    dims, parts = r.ints("past_dims", r.dims(past)[1:]), []
    for at, what in enumerate(("past_keys", "past_values")):
        part = r.step("Slice", [past, r.ints("from", [at]), r.ints("to", [at + 1])], f"{what}_sliced")
        parts.append(r.step("Reshape", [part, dims], what))
    return parts


def _check(r: Rewriter, node: onnx.NodeProto, further: str) -> None:
    """Refuses what no attention here supports. further: an input that it must not have, or ""."""
    check_known(r, node, *KNOWN, *ZERO)
    for name in ZERO:
        if attribute(node, name, 0):
            raise r.refusal(f"its attribute {name} is not supported; export without it")
    if further:
        raise r.refusal(f"a cache that is filled in place ({further!r}) is not supported")
    if r.is_read(3):
        raise r.refusal("the products are used as an output, which is not supported")


def _mask(r: Rewriter, node: onnx.NodeProto, mask: str, heads: Heads) -> str:
    """Returns the tensor that is added to the products for the mask and for unidirectional=1, or "" if there is
    nothing to add. Both are one tensor, as in onnxruntime: their sum could be minus infinity."""
    added, kept = "", _kept(r, node, mask, heads) if mask else ""
    if kept:
        by = r.constant("mask_filter_value", np.float32(attribute(node, "mask_filter_value", -10000.0)))
        added = r.step("Where", [kept, r.constant("zero", np.float32(0)), by], "mask_added")
    if attribute(node, "unidirectional", 0) != 1:
        return added
    if heads.keys > heads.queries + heads.past:
        raise r.refusal(
            "unidirectional with more keys than queries is not supported, since onnxruntime's result varies"
        )
    # mask keys after the query's own position, as onnxruntime counts it
    later = np.triu(np.ones((heads.queries, heads.keys), np.bool_), heads.past + 1)
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
    """Writes the attention of a query (batch, queries, all heads' size), and of keys and values (batch, heads, keys,
    size). added: tensors added to the products, in this order: at -10000 the last bit of a score decides."""
    query, keys, values = parts
    by_head = r.step("Reshape", [query, r.ints("queries_dims", heads.dims(0, heads.queries))], "queries_by_head")
    queries = r.step("Transpose", [by_head], "queries", perm=[0, 2, 1, 3])
    columns = r.step("Transpose", [keys], "keys_as_columns", perm=[0, 1, 3, 2])
    scale = attribute(node, "scale", 0.0) or 1.0 / np.sqrt(heads.sizes[0] // heads.heads)
    scores = r.step("MatMul", [queries, columns], "products")
    scores = r.step("Mul", [scores, r.constant("scale", np.float32(scale))], "scores")
    for at, more in enumerate(filter(None, added)):
        scores = r.step("Add", [scores, more], f"scores_with_{at}")
    shares = r.step("Softmax", [scores], "shares", axis=-1)
    rows = r.step("Transpose", [r.step("MatMul", [shares, values], "sums")], "rows", perm=[0, 2, 1, 3])
    r.node("Reshape", [rows, r.ints("rows_dims", [heads.batch, heads.queries, heads.sizes[2]])], node.output[0])


REPLACED = {
    (MICROSOFT, "Attention"): attention,
    (MICROSOFT, "QAttention"): attention,
    (MICROSOFT, "MultiHeadAttention"): several,
}
