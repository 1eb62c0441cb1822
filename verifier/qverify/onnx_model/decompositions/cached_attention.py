"""Writes the operators of ONNX for a cache that is written in place: TensorScatter, and Attention with nonpad_kv_seqlen
or with its products as an output."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Array, Rewriter, attribute, check_known, input_name

LOWEST = float(np.finfo(np.float32).min)
KNOWN = ("is_causal", "scale", "softcap", "q_num_heads", "kv_num_heads", "qk_matmul_output_mode", "softmax_precision")


def tensor_scatter(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the cache with the update at its places along the axis, from the write index of each sequence on; with
    mode=circular behind the end at the start. Inputs: cache (batch, ...), update, write_indices (batch) or none."""
    cache, update, indices = node.input[0], node.input[1], input_name(node, 2)
    dims, new = r.dims(cache), r.dims(update)
    at, rank = attribute(node, "axis", -2) % len(dims), len(dims)
    if at == 0:
        raise r.refusal("its axis is that of the batch; wanted another")
    slots, steps = dims[at], new[at]
    column = [1] * rank
    column[at] = slots
    places = r.constant("places", np.arange(slots, dtype=np.int64).reshape(column))
    circular = attribute(node, "mode", b"linear") == b"circular"
    since = places
    if indices:
        start = r.step("Reshape", [indices, r.ints("start_dims", [dims[0], *[1] * (rank - 1)])], "start")
        since = r.step("Sub", [places, start], "since")
        if circular:
            since = r.step("Mod", [since, r.ints("slots", slots)], "since_in_turn")
        high = dims[at] - (0 if circular else steps)
        starts = [np.full(dims[0], v, np.int64) for v in (0, high - circular, high // 2)]
        r.valid += [{indices: value} for value in starts]
    first, last = r.ints("first", 0), r.ints("last", steps - 1)
    near = r.step("Min", [r.step("Max", [since, first], "from_first"), last], "step")
    whole = r.ints("dims", [*new[:at], slots, *new[at + 1 :]])
    taken = r.step("GatherElements", [update, r.step("Expand", [near, whole], "index")], "new", axis=at)
    written = r.step("Equal", [since, near], "written")
    r.node("Where", [written, taken, cache], node.output[0])


def attention(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes an Attention that function_bodies does not: with the number of keys of each sequence (nonpad_kv_seqlen), or
    with its products as an output."""
    if not (input_name(node, 6) or r.is_read(3)):
        return False
    check_known(r, node, *KNOWN)
    if attribute(node, "is_causal", 0) not in (0, 1):
        raise r.refusal("is_causal is neither 0 nor 1")
    query, key, value = (_by_head(r, node, at) for at in range(3))
    pasts = [(query, ""), (key, input_name(node, 4)), (value, input_name(node, 5))]
    for at, (new, past) in enumerate(pasts[1:], 1):
        if past:
            joined = (
                r.node("Concat", [past, new[0]], node.output[at], axis=2)
                if r.is_read(at)
                else r.step("Concat", [past, new[0]], "cache", axis=2)
            )
            length = r.dims(past)[2] + new[1][2]
            pasts[at] = ((joined, (new[1][0], new[1][1], length, new[1][3])), past)
        elif r.is_read(at):
            r.node("Identity", [new[0]], node.output[at])
    _attend(r, node, query, pasts[1][0], pasts[2][0])
    return None


Sized = tuple[str, tuple[int, ...]]  # a tensor (batch, heads, length, size) and its dims


def _by_head(r: Rewriter, node: onnx.NodeProto, at: int) -> Sized:
    """Returns query, key or value."""
    name, dims = node.input[at], r.dims(node.input[at])
    if len(dims) == 4:
        return name, dims
    heads = attribute(node, "kv_num_heads" if at else "q_num_heads", 0)
    if len(dims) != 3 or heads < 1 or dims[2] % heads:
        raise r.refusal(f"{name!r} of dims {list(dims)} for {heads} heads; wanted (batch, length, heads * size)")
    what = ("query", "key", "value")[at]
    shape = (dims[0], heads, dims[1], dims[2] // heads)
    rows = r.step("Reshape", [name, r.ints(f"{what}_dims", [shape[0], shape[2], shape[1], shape[3]])], f"{what}_rows")
    return r.step("Transpose", [rows], f"{what}_by_head", perm=[0, 2, 1, 3]), shape


def _for_each_head(r: Rewriter, x: Sized, heads: int, what: str) -> str:
    """Returns keys or values repeated for the heads of their group."""
    groups = x[1][1]
    if heads == groups:
        return x[0]
    index = r.ints(f"{what}_group", np.repeat(np.arange(groups), heads // groups))
    return r.step("Gather", [x[0], index], f"{what}_for_heads", axis=1)


def _attend(r: Rewriter, node: onnx.NodeProto, query: Sized, key: Sized, value: Sized) -> None:
    (batch, heads, queries, size), keys, wide = query[1], key[1][2], value[1][3]
    columns = r.step("Transpose", [_for_each_head(r, key, heads, "key")], "columns", perm=[0, 1, 3, 2])
    scale = attribute(node, "scale", 0.0) or 1.0 / np.sqrt(size)
    scaled = r.step("Mul", [query[0], r.constant("scale", np.float32(scale))], "scaled_query")
    stages = [r.step("MatMul", [scaled, columns], "scores")]
    cap = attribute(node, "softcap", 0.0)
    stages.append(stages[0])
    if cap > 0:
        limit = r.constant("softcap", np.float32(cap))
        tanh = r.step("Tanh", [r.step("Div", [stages[0], limit], "capped")], "tanh")
        stages[1] = r.step("Mul", [tanh, limit], "soft")
    scores, allowed = stages[1], _allowed(r, node, batch, queries, keys)
    mask = input_name(node, 3)
    if mask and r.kind(mask) != onnx.TensorProto.BOOL:
        scores = r.step("Add", [scores, mask], "masked")
    if allowed:
        scores = r.step("Where", [allowed, scores, r.constant("lowest", np.float32(LOWEST))], "kept_scores")
    stages.append(scores)
    shares = r.step("Softmax", [scores], "all_shares", axis=-1)
    if allowed:  # of a query without keys, onnxruntime makes 0
        shares = r.step("Where", [allowed, shares, r.constant("nothing", np.float32(0))], "shares")
    stages.append(shares)
    if r.is_read(3):
        r.node("Identity", [stages[attribute(node, "qk_matmul_output_mode", 0)]], node.output[3])
    sums = [shares, _for_each_head(r, value, heads, "value")]
    if len(r.dims(node.input[0])) == 4:
        r.node("MatMul", sums, node.output[0])
    else:
        rows = r.step("Transpose", [r.step("MatMul", sums, "sums")], "rows", perm=[0, 2, 1, 3])
        r.node("Reshape", [rows, r.ints("output_dims", [batch, queries, heads * wide])], node.output[0])


def _allowed(r: Rewriter, node: onnx.NodeProto, batch: int, queries: int, keys: int) -> str:
    """Returns the booleans of the keys that each query reads, "" if it reads all: those below the number of keys of its
    sequence; with is_causal up to its own position, which counts from that number back; and those of a mask."""
    lengths, past, mask = input_name(node, 6), input_name(node, 4), input_name(node, 3)
    places = r.ints("places", np.arange(keys).reshape(1, 1, 1, keys))
    kept = list[str]()
    if lengths:
        ends = r.step("Reshape", [lengths, r.ints("ends_dims", [batch, 1, 1, 1])], "ends")
        kept.append(r.step("Less", [places, ends], "of_sequence"))
        r.valid += [{lengths: np.full(batch, n, np.int64)} for n in {keys, max(keys // 2, queries), queries}]
    if attribute(node, "is_causal", 0):
        own: Array = np.arange(queries).reshape(1, 1, queries, 1) + (r.dims(past)[2] if past else 0)
        name = r.ints("own", own)
        if lengths:
            name = r.step("Add", [r.step("Sub", [ends, r.ints("queries", queries)], "before"), name], "own_place")
        kept.append(r.step("LessOrEqual", [places, name], "earlier"))
    if mask and r.kind(mask) == onnx.TensorProto.BOOL:
        kept.append(mask)
    while len(kept) > 1:
        kept = [r.step("And", kept[:2], "both"), *kept[2:]]
    return kept[0] if kept else ""


REPLACED = {("", "TensorScatter"): tensor_scatter}
