"""mul: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def mul_gate(m: Qdq) -> None:
    m.output(m.quantize(m.op("Mul", [m.input((2, 3, 5, 7)), m.input((2, 3, 1, 1), 0, 1)])))


def random_nodes(r: RandomNodes) -> None:
    first, second = r.broadcast()
    a, b = r.input(r.type(), first), r.input(r.type(), second)
    y = r.output(r.type(), np.broadcast_shapes(first, second))
    r.node("mul", (a, b, r.rq(1, 1)), y, r.limits(y.dtype))
