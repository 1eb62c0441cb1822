"""gather_elements: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def elements_gathered(m: Qdq) -> None:
    x = m.input((3, 5, 7))
    index = m.constant("index", m.rng.integers(-5, 5, (2, 4, 7)))
    m.output(m.quantize(m.op("GatherElements", [x, index], axis=1), like=x))


@reference(integer=False)
def elements_at_computed_places(m: Qdq) -> None:
    x = m.input((3, 5, 7))
    m.output(m.op("GatherElements", [x, m.op("ArgMax", [x], axis=1)], axis=1))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), (3, 5, 7))
    for axis, shape in ((0, (11, 5, 2)), (1, (3, 9, 7)), (2, (1, 1, 1))):
        for dtype in ("int32", "int64"):
            index = r.rng.integers(-x.shape[axis], x.shape[axis], shape).astype(dtype)
            r.node("gather_elements", (x, r.plain(index)), r.like(x, shape), (axis,))
