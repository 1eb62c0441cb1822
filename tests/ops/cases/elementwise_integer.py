"""elementwise_integer: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes

ENDS = {t: (np.iinfo(t).min, np.iinfo(t).max) for t in ("int32", "int64", "uint8", "int8")}


@reference(integer=False)
def arithmetic_of_indices(m: Qdq) -> None:
    x = m.input((2, 11, 3))
    a, b = (m.op("ArgMax", [x], axis=1, keepdims=0, select_last_index=last) for last in (0, 1))
    c = m.constant("c", np.array([3, -4, 5], np.int64))
    for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        m.output(m.op(kind, [a, c if kind in ("Div", "Sub") else b]))
    below = m.op("Sub", [a, c])
    for kind in ("Neg", "Abs", "Sign"):
        m.output(m.op(kind, [below]))
    m.output(
        m.op("Clip", [below, m.constant("low", np.array(-2, np.int64)), m.constant("high", np.array(4, np.int64))])
    )


@reference(integer=False)
def a_mask_of_comparisons(m: Qdq) -> None:
    x, y = m.input((3, 7)), m.input((1, 7))
    index, five = m.op("ArgMax", [x], axis=1), m.constant("five", np.array(5, np.int64))
    masks = [m.op(kind, [x, y]) for kind in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")]
    masks += [m.op("Less", [index, five]), m.op("Equal", [masks[0], masks[1]]), m.op("IsNaN", [x]), m.op("IsInf", [x])]
    masks.append(m.op("Or", masks[-2:]))
    masks.append(m.op("And", [masks[3], m.op("Not", [masks[-1]])]))
    masks.append(m.op("Xor", [masks[5], masks[-1]]))
    m.output(m.op("Where", [masks[-1], x, y]))
    for mask in masks:
        m.output(m.op("Cast", [mask], to=1))


@reference()
def a_quantized_tensor_in_a_narrower_range(m: Qdq) -> None:
    """Adds a Clip in the form that Brevitas writes: QuantizeLinear, Clip of the integers, DequantizeLinear."""
    if "16" in m.act:  # onnxruntime has no Clip of 16 bits
        m.act, m.opset = "uint8", 17
    x = m.input((2, 5, 7))
    name, low = x.removesuffix("_dq"), np.iinfo(m.act).min + 30
    ends = [m.constant(n, np.array(v, m.act)) for n, v in (("low", low), ("high", low + 120))]
    made = m.op("Clip", [f"{name}_q", *ends])
    m.output(m.op("DequantizeLinear", [made, f"{name}_scale", f"{name}_zp"], axis=0))


def random_nodes(r: RandomNodes) -> None:
    """Every function on every type that it has: both signs, both ends, equal and unequal elements."""
    for dtype, ends in ENDS.items():
        shapes = r.broadcast()
        a, b = (r.plain(_values(r, dtype, ends, shape)) for shape in shapes)
        out = np.broadcast_shapes(*shapes)
        for function in (0, 1, 2, 4, 5, 6, 7, 8):
            r.node("elementwise_integer", (a, b), r.plain_output(dtype, out), (function,))
        divisor = _values(r, dtype, ends, shapes[1])
        r.node(
            "elementwise_integer",
            (a, r.constant(np.where(divisor == 0, 7, divisor).astype(dtype))),
            r.plain_output(dtype, out),
            (3,),
        )
        for function in range(32, 37):
            r.node("elementwise_integer", (a, b), r.plain_output("bool", out), (function,))
        for function in range(16, 20):
            r.node("elementwise_integer", (a,), r.plain_output(dtype, shapes[0]), (function,))
        low, high = (r.constant(np.array([v], dtype)) for v in sorted(r.rng.integers(ends[0] // 2, ends[1] // 2, 2)))
        for limits in ((low, high), (None, high), (low, None), (None, None), (high, low)):
            r.node("elementwise_integer", (a, *limits), r.plain_output(dtype, shapes[0]), (20,))
    _floats(r)
    _logic(r)


def _values(r: RandomNodes, dtype: str, ends: tuple[int, int], shape: tuple[int, ...]) -> np.ndarray:
    near = np.clip([-7, -1, 0, 1, 2, 7, 100], *ends)
    return r.rng.choice([*near, *ends, ends[0] + 1, *r.rng.integers(*ends, 3)], shape).astype(dtype)


def _floats(r: RandomNodes) -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1e-45], np.float32)
    a, b = (r.plain(r.rng.choice(special, shape)) for shape in ((5, 7), (7,)))
    for function in range(32, 37):
        r.node("elementwise_integer", (a, b), r.plain_output("bool", (5, 7)), (function,))
    for function in (40, 41):
        r.node("elementwise_integer", (a,), r.plain_output("bool", (5, 7)), (function,))


def _logic(r: RandomNodes) -> None:
    a, b = (r.plain(r.rng.integers(0, 2, shape).astype(bool)) for shape in ((5, 7), (5, 1)))
    for function in (32, 48, 49, 50):
        r.node("elementwise_integer", (a, b), r.plain_output("bool", (5, 7)), (function,))
    r.node("elementwise_integer", (a,), r.plain_output("bool", (5, 7)), (51,))
