"""mod: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def mod_of_an_index(m: Qdq) -> None:
    index = m.op("ArgMax", [m.input((2, 11, 3))], axis=1, keepdims=0)
    m.output(m.op("Mod", [index, m.constant("by", np.array([3, -4, 5], np.int64))]))


@reference(integer=False)
def mod_of_what_is_computed(m: Qdq) -> None:
    """Every sign, -1 and 1 among the divisors."""
    index = m.op("ArgMax", [m.input((2, 11, 3))], axis=1, keepdims=0)
    by = m.op(
        "Sub",
        [
            m.op("Mul", [m.op("ArgMin", ["in0_dq"], axis=1, keepdims=0), m.constant("two", np.array(2))]),
            m.constant("odd", np.array(7)),
        ],
    )
    for kind in ("Mod", "Div"):
        m.output(m.op(kind, [index, by]))
        m.output(m.op(kind, [index, m.constant(f"by_{kind}", np.array([-1, 2, -3]))]))
        m.output(m.op(kind, [m.op("Cast", [index], to=3), m.constant(f"small_{kind}", np.array([-1, 2, -3], np.int8))]))


def random_nodes(r: RandomNodes) -> None:
    """Both signs of both operands, both ends of the types, multiples, and divisors of -1 and 1."""
    for dtype in ("int32", "int64", "uint8", "int8"):
        first, second = r.broadcast()
        ends = np.iinfo(dtype)
        some = [-210, -7, -1, 0, 1, 7, 210, *r.rng.integers(-999, 999, 20), ends.min, ends.max]
        a = np.asarray(r.rng.choice(np.array(some, np.int64), first)).astype(dtype)
        b = np.asarray(r.rng.choice(np.array([-7, -5, -1, 1, 5, 7, ends.max], np.int64), second)).astype(dtype)
        inputs = (r.plain(a), (r.constant if r.pick(0, 1) else r.plain)(b))
        r.node("mod", inputs, r.plain_output(dtype, np.broadcast_shapes(first, second)))
