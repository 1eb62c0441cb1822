"""Writes the operators of decoders that keep a state of fixed size: LinearAttention and CausalConvWithState (of ONNX and
of com.microsoft)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute, check_known, input_name

MAX_STEPS = 64  # each is about a dozen nodes
RULES = (b"linear", b"gated", b"delta", b"gated_delta")
PLAIN_CONVOLUTION = {  # attributes of com.microsoft's with the values that change nothing
    "ndim": (1,),
    "dilation": (1,),
    "channels_last": (0,),
    "state_channels_last": (-1, 0),
    "state_length": (0,),
    "state_update_capacity": (0,),
    "state_window": (0,),
    "input_channel_offset": (0,),
    "input_channels": (0,),
}


def causal_convolution(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the convolution of each channel with the elements that came before, of which the state holds the last.
    Inputs: x (batch, channels, length), weight (channels, 1, size), bias, past state (batch, channels, size - 1)."""
    check_known(r, node, "activation", *PLAIN_CONVOLUTION)
    _check_plain(r, node, PLAIN_CONVOLUTION)
    if any(node.output[2:]):
        raise r.refusal("its output state_update is not supported; export without it")
    (batch, channels, _), (_, _, size) = r.dims(node.input[0]), r.dims(node.input[1])
    if size < 2:
        raise r.refusal(f"a kernel of {size} element has no state; export it as a Conv")
    past = input_name(node, 3) or r.constant("no_past", np.zeros((batch, channels, size - 1), np.float32))
    whole = r.step("Concat", [past, node.input[0]], "with_past", axis=-1)
    kind = attribute(node, "activation", b"none")
    if kind not in (b"none", b"silu", b"swish"):
        raise r.refusal(f"its activation {kind.decode(errors='replace')} is not supported; wanted none, silu or swish")
    conv = [whole, node.input[1], input_name(node, 2)]
    if kind == b"none":
        r.node("Conv", conv, node.output[0], group=channels)
    else:
        r.node("QuickGelu", [r.step("Conv", conv, "sums", group=channels)], node.output[0], MICROSOFT, alpha=1.0)
    if r.is_read(1):
        ends = [r.ints(n, [v]) for n, v in (("first", 1 - size), ("end", np.iinfo(np.int64).max), ("axis", 2))]
        r.node("Slice", [whole, *ends], node.output[1])


def _check_plain(r: Rewriter, node: onnx.NodeProto, plain: dict[str, tuple[int, ...]]) -> None:
    for name, values in plain.items():
        if attribute(node, name, values[0]) not in values:
            raise r.refusal(f"its attribute {name} is not supported; export without it")


def linear_attention(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the steps S = exp(g) S + k u, y = scale * q S, where u is v, or with a delta rule beta (v - k S). Inputs:
    query, key, value (batch, length, heads * size), past state (batch, heads, key size, value size), decay g (a number
    for each head, or one for each of its key elements), beta (a number for each head)."""
    check_known(r, node, "update_rule", "q_num_heads", "kv_num_heads", "scale", "chunk_size", "state_window")
    _check_plain(r, node, {"state_window": (0,)})
    rule, heads = attribute(node, "update_rule", b"gated_delta"), attribute(node, "q_num_heads", 0)
    batch, steps, width = r.dims(node.input[0])
    if rule not in RULES or heads < 1 or heads != attribute(node, "kv_num_heads", 0) or width % heads:
        raise r.refusal(
            f"update_rule={rule.decode(errors='replace')}, q_num_heads={heads}, kv_num_heads={attribute(node, 'kv_num_heads', 0)} "
            "is not supported; wanted as many heads of keys and values as of queries"
        )
    if steps > MAX_STEPS:
        raise r.refusal(f"{steps} tokens at once are not supported; wanted at most {MAX_STEPS}. Give a shorter input")
    key_size, value_size = width // heads, r.dims(node.input[2])[2] // heads
    scale = attribute(node, "scale", 0.0) or 1.0 / np.sqrt(key_size)
    query = r.step("Mul", [node.input[0], r.constant("scale", np.float32(scale))], "scaled_query")
    rows = {"query": (query, 1, key_size), "key": (node.input[1], 1, key_size), "value": (node.input[2], 1, value_size)}
    if b"gated" in rule:
        decay = r.step("Exp", [node.input[4]], "kept")
        rows["decay"] = (decay, r.dims(node.input[4])[2] // heads, 1)
    if b"delta" in rule and input_name(node, 5):
        rows["beta"] = (node.input[5], 1, 1)
    parts = {what: _by_step(r, x, (batch, steps, heads, *size), what) for what, (x, *size) in rows.items()}
    state = input_name(node, 3) or r.constant("start", np.zeros((batch, heads, key_size, value_size), np.float32))
    outputs = list[str]()
    for at in range(steps):
        now = {what: _row(r, x, at, what) for what, x in parts.items()}
        state = _next_state(r, node, now, state, (batch, heads, key_size, 1), at == steps - 1)
        outputs.append(r.step("MatMul", [now["query"], state], "row"))
    joined = outputs[0] if steps == 1 else r.step("Concat", outputs, "rows", axis=2)
    flat = r.step("Transpose", [joined], "by_token", perm=[0, 2, 1, 3])
    r.node("Reshape", [flat, r.ints("output_dims", [batch, steps, heads * value_size])], node.output[0])


def _next_state(
    r: Rewriter, node: onnx.NodeProto, now: dict[str, str], state: str, column: tuple[int, ...], last: bool
) -> str:
    """Returns the state after a step. now: its query, key, value, decay and beta. last: whether it is the node's
    present."""
    if "decay" in now:
        state = r.step("Mul", [state, now["decay"]], "kept_state")
    update = now["value"]
    if b"delta" in attribute(node, "update_rule", b"gated_delta"):
        update = r.step("Sub", [update, r.step("MatMul", [now["key"], state], "recalled")], "new")
        if "beta" in now:
            update = r.step("Mul", [update, now["beta"]], "update")
    key = r.step("Reshape", [now["key"], r.ints("column_dims", column)], "column")
    added = r.step("MatMul", [key, update], "added")
    return r.node("Add", [state, added], node.output[1] if last and r.is_read(1) else r.fresh("state"))


def _by_step(r: Rewriter, x: str, dims: tuple[int, ...], what: str) -> str:
    """Returns x (batch, steps, heads * rows * columns) as (steps, batch, heads, rows, columns)."""
    return r.step(
        "Transpose",
        [r.step("Reshape", [x, r.ints(f"{what}_dims", dims)], f"{what}_apart")],
        f"{what}_steps",
        perm=[1, 0, 2, 3, 4],
    )


def _row(r: Rewriter, x: str, at: int, what: str) -> str:
    place: Any = np.int64(at)
    return r.step("Gather", [x, r.constant("step", place)], what, axis=0)


REPLACED = {
    **{(domain, "CausalConvWithState"): causal_convolution for domain in ("", MICROSOFT)},
    **{(domain, "LinearAttention"): linear_attention for domain in ("", MICROSOFT)},
}
