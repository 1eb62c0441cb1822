"""reduce_integer: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def reductions_of_indices(m: Qdq) -> None:
    index = m.op("ArgMax", [m.input((3, 11, 7))], axis=1)
    for kind in ("ReduceMax", "ReduceMin", "ReduceProd"):  # axes are an input from opset 18 on
        if m.opset < 18:
            m.output(m.op(kind, [index], axes=[0, 2], keepdims=0))
        else:
            m.output(m.op(kind, [index, m.constant("two", np.array([0, 2], np.int64))], keepdims=0))
    m.output(m.op("ReduceSum", [index, m.constant("axes", np.array([-1], np.int64))]))


@reference()
def the_largest_of_a_quantized_tensor(m: Qdq) -> None:
    """The form that onnxruntime's optimizer leaves: the integers themselves are reduced."""
    if "16" in m.act:  # onnxruntime has no ReduceMax of 16 bits
        m.act, m.opset = "uint8", 17
    x = m.input((2, 5, 7))
    name = x.removesuffix("_dq")
    made = m.op("ReduceMax", [f"{name}_q"], axes=[1])
    m.output(m.op("DequantizeLinear", [made, f"{name}_scale", f"{name}_zp"]))


def random_nodes(r: RandomNodes) -> None:
    """Every function over some, all and no axes, at both ends of the types."""
    shape = (3, 5, 7)
    for dtype in ("int32", "int64", "uint8", "int8"):
        ends = np.iinfo(dtype)
        x = r.plain(
            r.rng.choice([ends.min, ends.max, 0, 1, *r.rng.integers(ends.min, ends.max, 9, dtype)], shape).astype(dtype)
        )
        for function in range(4):
            for mask in (0b001, 0b010, 0b101, 0b111, 0):
                kept = tuple(n for k, n in enumerate(shape) if not mask >> k & 1)
                r.node("reduce_integer", (x,), r.plain_output(dtype, kept), (function, mask))
