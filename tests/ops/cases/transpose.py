"""transpose: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def transposed(m: Qdq) -> None:
    x = m.input((2, 3, 5, 7))
    m.output(m.quantize(m.op("Transpose", [x], perm=[0, 2, 3, 1]), like=x))


def random_nodes(r: RandomNodes) -> None:
    shape, order = (2, 3, 5, 7), tuple(int(i) for i in r.rng.permutation(4))
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), shape)
    r.node("transpose", (x,), r.like(x, tuple(shape[i] for i in order)), order)
