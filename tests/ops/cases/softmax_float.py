"""softmax_float: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def softmax_of_products(m: Qdq) -> None:
    x = m.input((3, 11))
    m.output(m.quantize(m.op("Softmax", [m.op("Mul", [x, x])], axis=-1)))


def random_nodes(r: RandomNodes) -> None:
    r.node("softmax_float", (r.floats((2, 7, 5, 11)),), r.float_output((2, 7, 5, 11)), (2, 7, 55))
