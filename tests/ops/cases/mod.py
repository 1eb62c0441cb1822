"""mod: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def mod_of_an_index(m: Qdq) -> None:
    index = m.op("ArgMax", [m.input((2, 11, 3))], axis=1, keepdims=0)
    m.output(m.op("Mod", [index, m.constant("by", np.array([3, -4, 5], np.int64))]))


def random_nodes(r: RandomNodes) -> None:
    """Both signs of both operands, both ends of the types, multiples, and divisors of -1 and 1."""
    for dtype in ("int32", "int64"):
        first, second = r.broadcast()
        ends = np.iinfo(dtype)
        a = r.rng.choice([-210, -7, -1, 0, 1, 7, 210, *r.rng.integers(-999, 999, 20), ends.min, ends.max], first)
        b = r.rng.choice([-7, -5, -1, 1, 5, 7, ends.min, ends.max], second)
        inputs = (r.plain(a.astype(dtype)), r.constant(b.astype(dtype)))
        r.node("mod", inputs, r.plain_output(dtype, np.broadcast_shapes(first, second)))
