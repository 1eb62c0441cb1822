"""log_softmax: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def logarithm_of_a_softmax(m: Qdq) -> None:
    x = m.input((2, 7, 11), -9, 9)
    m.output(m.op("LogSoftmax", [x], axis=1))
    m.output(m.quantize(m.op("LogSoftmax", [m.op("Exp", [m.input((5, 13))])])))


def random_nodes(r: RandomNodes) -> None:
    outer, depth, inner = r.pick(1, 3), r.pick(1, 2, 17), r.pick(1, 5)
    shape = (outer, depth, inner)
    r.node("log_softmax", (r.floats(shape, 9.0),), r.float_output(shape), shape)
