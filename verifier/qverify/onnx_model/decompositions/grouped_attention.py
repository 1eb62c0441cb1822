"""Writes com.microsoft GroupQueryAttention, the attention of decoders with a cache, as rotations, the longer cache, a
softmax of the scaled products, and a weighted sum of the values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Array, Rewriter, attribute, check_known, input_name

KNOWN = (
    *("num_heads", "kv_num_heads", "scale", "do_rotary", "rotary_interleaved", "local_window_size", "softcap"),
    *("causal", "smooth_softmax", "kv_cache_bit_width", "qk_norm_epsilon"),
)
PLAIN = {  # attributes with the values that change nothing
    "qk_output": (0,),
    "sliding_window_cache": (0,),
}
QUANTIZED = ("k_quant_type", "v_quant_type")
SINK, SCALES = 11, (12, 13)  # inputs: a score for no key of each head, scales of a cache of int8
LOWEST = float(np.finfo(np.float32).min)
INTEGER_EXTREMA = 12  # the opset from which Max and Min take int32
MAX_INPUTS = 14  # the later ones are not supported


@dataclass(frozen=True, slots=True)
class Grouped:
    """Dimensions of a grouped attention.

    batch: size of the batch. queries: number of new tokens. keys: number of tokens with the new ones, of the longest
    row. past, slots: tokens for which the cache has room, before and afterwards. heads, groups: number of heads of the
    queries, and of the keys and values. size: elements of one head."""

    batch: int
    queries: int
    keys: int
    past: int
    slots: int
    heads: int
    groups: int
    size: int

    @property
    def is_prompt(self) -> bool:
        """Whether all tokens are new, in which case the past is not read."""
        return self.keys == self.queries


def grouped_attention(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the node. Inputs: query (or query, key and value in one), key, value, past key, past value, the number of
    the last token of each row, total length, cosines, sines, positions, and a bias of the products."""
    dims = _dims(r, node)
    query, key, value = _parts(r, node, dims)
    last = r.step("Reshape", [node.input[5], r.ints("rows_dims", [dims.batch, 1, 1, 1])], "last")
    start = _start(r, last, dims)
    r.valid += _valid(r, node, dims)
    if attribute(node, "do_rotary", 0) == 1:
        positions = input_name(node, 9) or _positions(r, start, dims)
        query, key = (
            _rotated(r, node, x, positions, heads, what)
            for x, heads, what in ((query, dims.heads, "query"), (key, dims.groups, "key"))
        )
    caches = []
    for at, (x, what) in enumerate(((key, "key"), (value, "value"))):
        by_head = _by_head(r, x, dims, dims.groups, what)
        scale = _cache_scale(r, node, at, dims, what)
        if scale:
            by_head = _quantized(r, by_head, scale, what)
        if dims.is_prompt:
            caches.append(_with_room(r, by_head, dims.queries, dims, what, input_name(node, 3)))
        else:
            caches.append(_longer_cache(r, node.input[3 + at], by_head, (start, last), dims, what))
        if len(node.output) > 1 + at and node.output[1 + at]:
            r.node("Identity", [caches[at]], node.output[1 + at])
        if scale:
            real = r.step("Cast", [caches[at]], f"{what}_integers", to=onnx.TensorProto.FLOAT)
            caches[at] = r.step("Mul", [real, scale], f"{what}_real")
    _attend(r, node, _by_head(r, query, dims, dims.heads, "query"), caches, (start, last), dims)


def _dims(r: Rewriter, node: onnx.NodeProto) -> Grouped:
    """Returns the dimensions. Raises UnsupportedError for a form that is not supported."""
    check_known(r, node, *KNOWN, *PLAIN, *QUANTIZED)
    if r.opset < INTEGER_EXTREMA:
        raise r.refusal(f"it needs opset {INTEGER_EXTREMA} here, got {r.opset}; export with that opset")
    for name, plain in PLAIN.items():
        if attribute(node, name, plain[0]) not in plain:
            raise r.refusal(f"its attribute {name} is not supported; export without it")
    if attribute(node, "rotary_interleaved", 0) not in (0, 1) or attribute(node, "local_window_size", -1) == 0:
        raise r.refusal("wanted rotary_interleaved 0 or 1, and a local_window_size of at least 1, or -1")
    _check_cache(r, node)
    if any(node.input[MAX_INPUTS:]) or any(node.output[3:]):
        raise r.refusal("its inputs after v_scale, and outputs after present_value, are not supported")
    if attribute(node, "causal", 1) not in (0, 1):
        raise r.refusal("causal is neither 0 nor 1")
    heads, groups = attribute(node, "num_heads", 0), attribute(node, "kv_num_heads", 0)
    if heads < 1 or groups < 1 or heads % groups:
        raise r.refusal(f"num_heads={heads} is no multiple of kv_num_heads={groups}")
    query = r.dims(node.input[0])
    whole = heads if input_name(node, 1) else heads + 2 * groups
    if len(query) != 3 or query[2] % whole:
        raise r.refusal(f"a query of dims {list(query)} for {whole} heads; wanted (batch, length, heads * size)")
    if input_name(node, 3) and not all(len(node.output) > at and node.output[at] for at in (1, 2)):
        raise r.refusal(
            "it has a past, but not both presents as outputs, for which onnxruntime's result is not defined. Export it with "
            "present_key and present_value"
        )
    keys, past, slots = _lengths(r, node, query[1])
    return Grouped(query[0], query[1], keys, past, slots, heads, groups, query[2] // whole)


def _check_cache(r: Rewriter, node: onnx.NodeProto) -> None:
    """Refuses a quantized cache other than of int8 with constant scales."""
    kinds = {attribute(node, name, b"NONE") for name in QUANTIZED}
    if kinds == {b"NONE"}:
        return
    if b"NONE" in kinds or attribute(node, "kv_cache_bit_width", 8) != 8 or not input_name(node, 3):
        raise r.refusal("a quantized cache is supported in 8 bits, with a past and for keys and values alike")
    if any(r.value(input_name(node, at)) is None for at in SCALES):
        raise r.refusal("a scale of its cache is computed at run time; only constants can be compiled")


def _lengths(r: Rewriter, node: onnx.NodeProto, queries: int) -> tuple[int, int, int]:
    """Returns the number of tokens with the new ones, and for how many the cache has room, before and afterwards."""
    name = input_name(node, 3)
    past = 0 if not name or r.is_empty(name) else r.dims(name)[2]
    total = r.value(node.input[6])
    if total is not None:
        keys = int(total.reshape(-1)[0])
        if keys != past + queries and not queries <= keys <= past:
            raise r.refusal(
                f"a total_sequence_length of {keys} with room for {past} tokens and {queries} new ones; wanted "
                f"{past + queries}, or {queries} to {past}"
            )
        return keys, past, max(past, keys)
    keys = past + queries
    present = r.dims(node.output[1])[2] if len(node.output) > 1 and node.output[1] else keys
    if present != keys:
        raise r.refusal(
            f"its total_sequence_length is no constant, so the length of its cache is not known. Make it a constant: at "
            f"most {keys}, the {past} tokens of the past and the {queries} new ones"
        )
    return keys, past, keys


def _cache_scale(r: Rewriter, node: onnx.NodeProto, at: int, dims: Grouped, what: str) -> str:
    """Returns the scale of a cache of int8, one number or (1, groups, 1, size); "" of a cache of float32."""
    if attribute(node, QUANTIZED[at], b"NONE") == b"NONE":
        return ""
    value = r.value(node.input[SCALES[at]])
    assert value is not None  # _check_cache
    if value.size not in (1, dims.groups * dims.size):
        raise r.refusal(f"{value.size} scales of a cache of {dims.groups} heads of {dims.size} elements")
    return r.constant(f"{what}_scale", value.reshape(() if value.size == 1 else (1, dims.groups, 1, dims.size)))


def _quantized(r: Rewriter, x: str, scale: str, what: str) -> str:
    """Returns the nearest integers (ties to even) of x / scale, of int8."""
    rounded = r.step("Round", [r.step("Div", [x, scale], f"{what}_scaled")], f"{what}_rounded")
    ends = [r.constant(f"{what}_{name}", np.float32(value)) for name, value in (("lowest", -128), ("highest", 127))]
    limited = r.step("Clip", [rounded, *ends], f"{what}_limited")
    return r.step("Cast", [limited], f"{what}_quantized", to=onnx.TensorProto.INT8)


def _parts(r: Rewriter, node: onnx.NodeProto, dims: Grouped) -> list[str]:
    """Returns query, key and value, each (batch, length, heads * size)."""
    if input_name(node, 1):
        return list(node.input[:3])
    sizes = [dims.heads * dims.size, dims.groups * dims.size, dims.groups * dims.size]
    parts, first, axis = list[str](), 0, r.ints("axis", [2])
    for what, size in zip(("query", "key", "value"), sizes, strict=True):
        cut = [r.ints(f"{what}_from", [first]), r.ints(f"{what}_to", [first + size])]
        parts.append(r.step("Slice", [node.input[0], *cut, axis], what))
        first += size
    return parts


def _valid(r: Rewriter, node: onnx.NodeProto, dims: Grouped) -> list[dict[str, Array]]:
    """Returns numbers of the last tokens for which onnxruntime's result is defined: full rows and shorter ones, of which
    every query keeps a key in its window; of a prompt with a window and a soft cap or a sink, full rows only."""
    window = attribute(node, "local_window_size", -1)
    most = dims.keys - dims.queries
    if dims.is_prompt:
        most = (min(dims.queries, window) if window > 0 else dims.queries) - 1
        if window > 0 and (attribute(node, "softcap", 0.0) > 0 or _has_sink(node)):
            most = 0
    shorter = [(np.arange(dims.batch) + first) % (most + 1) for first in (0, 1, 2)]
    shape = r.dims(node.input[5])
    return [{node.input[5]: (dims.keys - 1 - less).astype(np.int32).reshape(shape)} for less in shorter]


def _start(r: Rewriter, last: str, dims: Grouped) -> str:
    """Returns the int32 position of the first new token of each row: (batch, 1, 1, 1). last: that of the last token."""
    if dims.is_prompt:
        return r.constant("start", np.zeros((dims.batch, 1, 1, 1), np.int32))
    return r.step("Sub", [last, r.constant("before", np.int32(dims.queries - 1))], "start")


def _positions(r: Rewriter, start: str, dims: Grouped) -> str:
    """Returns the positions of the new tokens: int64 (batch, queries), not below 0."""
    first = r.step("Reshape", [start, r.ints("first_dims", [dims.batch, 1])], "first")
    own = r.step("Add", [first, r.constant("steps", np.arange(dims.queries, dtype=np.int32))], "own_positions")
    legal = r.step("Max", [own, r.constant("least", np.int32(0))], "legal_positions")
    return r.step("Cast", [legal], "positions", to=onnx.TensorProto.INT64)


def _rotated(r: Rewriter, node: onnx.NodeProto, x: str, positions: str, heads: int, what: str) -> str:
    """Returns x with each head turned by the angles of the positions. The tables have half of the turned elements."""
    half = r.dims(node.input[7])[-1]
    more = {"interleaved": attribute(node, "rotary_interleaved", 0), "num_heads": heads}
    operands = [x, positions, node.input[7], node.input[8]]
    return r.step("RotaryEmbedding", operands, f"turned_{what}", MICROSOFT, rotary_embedding_dim=2 * half, **more)


def _by_head(r: Rewriter, x: str, dims: Grouped, heads: int, what: str) -> str:
    """Returns (batch, heads, length, size) of (batch, length, heads * size)."""
    rows = r.step("Reshape", [x, r.ints(f"{what}_dims", [dims.batch, dims.queries, heads, dims.size])], f"{what}_rows")
    return r.step("Transpose", [rows], f"{what}_by_head", perm=[0, 2, 1, 3])


def _longer_cache(r: Rewriter, past: str, new: str, ends: tuple[str, str], dims: Grouped, what: str) -> str:
    """Returns the cache with the new tokens from their start on, and zeros behind the last: (batch, groups, slots, size).
    ends: the positions of the first and the last new token."""
    start, last = ends
    places = r.constant("places", np.arange(dims.slots, dtype=np.int32).reshape(1, 1, -1, 1))
    behind = r.step("Sub", [places, start], f"{what}_steps")
    least, most = (r.constant(n, np.int32(v)) for n, v in (("first_step", 0), ("last_step", dims.queries - 1)))
    step = r.step("Min", [r.step("Max", [behind, least], f"{what}_from_first"), most], f"{what}_step")
    whole = r.ints(f"{what}_whole", [dims.batch, dims.groups, dims.slots, dims.size])
    taken = r.step("GatherElements", [new, r.step("Expand", [step, whole], f"{what}_index")], f"{what}_new", axis=2)
    before = _with_room(r, past, dims.past, dims, what, past)
    is_before = r.step("Less", [places, start], f"{what}_is_before")
    filled = r.step("Where", [is_before, before, taken], f"{what}_filled")
    is_behind = r.step("Greater", [places, last], f"{what}_is_behind")
    return r.step("Where", [is_behind, r.constant("nothing", _zeros_like(r, past)), filled], f"{what}_cache")


def _zeros_like(r: Rewriter, cache: str, shape: tuple[int, ...] = ()) -> Array:
    """Returns zeros of the cache's type."""
    return np.zeros(shape, np.int8 if r.kind(cache) == onnx.TensorProto.INT8 else np.float32)


def _with_room(r: Rewriter, x: str, length: int, dims: Grouped, what: str, cache: str) -> str:
    """Returns x (batch, groups, length, size) with zeros for the further slots of the cache."""
    if length == dims.slots:
        return x
    room = r.constant(f"{what}_room", _zeros_like(r, cache, (dims.batch, dims.groups, dims.slots - length, dims.size)))
    return r.step("Concat", [x, room], f"{what}_with_room", axis=2)


def _tokens(r: Rewriter, cache: str, dims: Grouped, what: str) -> str:
    """Returns the part of a cache that holds tokens: (batch, groups, keys, size)."""
    if dims.slots == dims.keys:
        return cache
    cut = [r.ints(f"{what}_{name}", [value]) for name, value in (("first", 0), ("end", dims.keys), ("axis", 2))]
    return r.step("Slice", [cache, *cut], f"{what}_tokens")


def _attend(
    r: Rewriter, node: onnx.NodeProto, query: str, caches: list[str], ends: tuple[str, str], dims: Grouped
) -> None:
    """Writes the attention of the queries to the caches, (batch, heads, length, size)."""
    key, value = (
        _for_each_head(r, _tokens(r, x, dims, what), dims, what)
        for x, what in zip(caches, ("key", "value"), strict=True)
    )
    products = r.step("MatMul", [query, r.step("Transpose", [key], "columns", perm=[0, 1, 3, 2])], "products")
    scale = attribute(node, "scale", 0.0) or 1.0 / np.sqrt(dims.size)
    scores = r.step("Mul", [products, r.constant("scale", np.float32(scale))], "scores")
    if (cap := attribute(node, "softcap", 0.0)) > 0:
        limit = r.constant("softcap", np.float32(cap))
        scores = r.step("Mul", [r.step("Tanh", [r.step("Div", [scores, limit], "capped")], "tanh"), limit], "soft")
    if input_name(node, 10):
        scores = r.step("Add", [scores, node.input[10]], "biased")
    lowest = r.constant("lowest", np.float32(LOWEST))
    kept = r.step("Where", [_allowed(r, node, ends, dims), scores, lowest], "kept_scores")
    shares = _shares(r, node, kept, dims)
    rows = r.step("Transpose", [r.step("MatMul", [shares, value], "sums")], "rows", perm=[0, 2, 1, 3])
    out = [dims.batch, dims.queries, dims.heads * dims.size]
    r.node("Reshape", [rows, r.ints("output_dims", out)], node.output[0])


def _shares(r: Rewriter, node: onnx.NodeProto, scores: str, dims: Grouped) -> str:
    """Returns the softmax of the scores; with a sink, or smooth_softmax (a sink of 0), that of the scores and the sink of
    the head, without the sink's share."""
    sink = input_name(node, SINK)
    if not _has_sink(node):
        return r.step("Softmax", [scores], "shares", axis=-1)
    whole = r.ints("sink_dims", [dims.batch, dims.heads, dims.queries, 1])
    if sink:
        sink = r.step("Reshape", [sink, r.ints("heads_dims", [1, dims.heads, 1, 1])], "sink_of_head")
    column = r.step("Expand", [sink or r.constant("no_sink", np.zeros((1, 1, 1, 1), np.float32)), whole], "sinks")
    shares = r.step("Softmax", [r.step("Concat", [scores, column], "with_sink", axis=-1)], "all_shares", axis=-1)
    cut = [r.ints(f"shares_{name}", [value]) for name, value in (("first", 0), ("end", dims.keys), ("axis", 3))]
    return r.step("Slice", [shares, *cut], "shares")


def _has_sink(node: onnx.NodeProto) -> bool:
    return bool(input_name(node, SINK)) or attribute(node, "smooth_softmax", -1) == 1


def _for_each_head(r: Rewriter, x: str, dims: Grouped, what: str) -> str:
    """Returns keys or values repeated for the heads of their group."""
    each = dims.heads // dims.groups
    if each == 1:
        return x
    apart = r.ints(f"{what}_apart", [dims.batch, dims.groups, 1, dims.keys, dims.size])
    wide = r.ints(f"{what}_wide", [dims.batch, dims.groups, each, dims.keys, dims.size])
    joined = r.ints(f"{what}_joined", [dims.batch, dims.heads, dims.keys, dims.size])
    repeated = r.step("Expand", [r.step("Reshape", [x, apart], f"{what}_group"), wide], f"{what}_repeated")
    return r.step("Reshape", [repeated, joined], f"{what}_for_heads")


def _allowed(r: Rewriter, node: onnx.NodeProto, ends: tuple[str, str], dims: Grouped) -> str:
    """Returns the booleans (batch, 1, queries, keys) of the keys up to each query's own position, but not behind the last
    token of its row, within the window."""
    rows = r.constant("rows", np.arange(dims.queries, dtype=np.int32).reshape(1, 1, -1, 1))
    own = r.step("Add", [ends[0], rows], "own")
    keys = r.constant("keys", np.arange(dims.keys, dtype=np.int32).reshape(1, 1, 1, -1))
    most = r.step("Min", [own, ends[1]], "last_key") if attribute(node, "causal", 1) else ends[1]
    later = r.step("Greater", [keys, most], "later")
    window = attribute(node, "local_window_size", -1)
    if window < 1:
        return r.step("Not", [later], "allowed")
    last = r.step("Sub", [own, r.constant("window", np.int32(window))], "last_outside")
    outside = r.step("Or", [later, r.step("Not", [r.step("Greater", [keys, last], "inside")], "earlier")], "outside")
    return r.step("Not", [outside], "allowed")


REPLACED = {(MICROSOFT, "GroupQueryAttention"): grouped_attention}
