"""where: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def where_constant_mask(m: Qdq) -> None:
    mask = m.constant("mask", m.rng.integers(0, 2, (3, 7)).astype(bool))
    m.output(m.quantize(m.op("Where", [mask, m.input((2, 3, 7)), m.input((2, 3, 7), -1, 1)])))


def random_nodes(r: RandomNodes) -> None:
    condition = r.plain(r.rng.integers(0, 2, (5, 1)).astype(bool))
    y = r.output(r.type(), (3, 5, 7))
    r.node("where", (condition, r.input_like(y, (3, 1, 7)), r.input(r.type(), (3, 5, 7))), y)
    r.node("where", (condition, r.floats((3, 5, 7)), r.floats((5, 7))), r.float_output((3, 5, 7)))
