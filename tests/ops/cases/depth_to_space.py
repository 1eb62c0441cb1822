"""depth_to_space: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def depth_to_space(m: Qdq) -> None:
    x = m.input((1, 12, 3, 5))
    m.output(m.quantize(m.op("DepthToSpace", [x], blocksize=2, mode="CRD"), like=x))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), (2, 12, 3, 5))
    r.node("depth_to_space", (x,), r.like(x, (2, 3, 6, 10)), (2, r.pick(0, 1)))
