"""dequantize: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def dequantized_output(m: Qdq) -> None:
    m.output(m.input((2, 3, 5)))


def random_nodes(r: RandomNodes) -> None:
    for channels, axis in ((1, -1), (5, 1)):
        x = r.input(r.type("uint8", "int8", "uint16", "int16"), (2, 5, 7), channels, axis)
        r.node("dequantize", (x,), r.float_output((2, 5, 7)))
