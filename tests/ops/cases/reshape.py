"""reshape: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def flattened(m: Qdq) -> None:
    x = m.input((2, 3, 5, 7))
    m.output(m.quantize(m.op("Flatten", [x]), like=x))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), (2, 3, 5))
    r.node("reshape", (x,), r.like(x, (6, 5)))
