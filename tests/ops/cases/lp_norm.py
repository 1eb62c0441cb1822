"""lp_norm: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def rows_of_length_one(m: Qdq) -> None:
    x = m.op("Sub", [m.input((2, 7, 11)), m.input((7, 11))])
    m.output(m.quantize(m.op("LpNormalization", [x], axis=1)))
    m.output(m.op("LpNormalization", [m.op("Relu", [x])], axis=-1, p=1))


def random_nodes(r: RandomNodes) -> None:
    """Also rows of zeros."""
    shape = (r.pick(1, 3), r.pick(1, 2, 17), r.pick(1, 5))
    x = r.floats(shape)
    r.values[x.name][:, :, 0] *= r.pick(0, 1)
    r.node("lp_norm", (x,), r.float_output(shape), (*shape, r.pick(1, 2)))
