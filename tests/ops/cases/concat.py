"""concat: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def concat_three_scales(m: Qdq) -> None:
    parts = [m.input((1, 3, 5, 7)), m.input((1, 2, 5, 7), -1, 0.5), m.input((1, 4, 5, 7), 0, 9)]
    m.output(m.quantize(m.op("Concat", parts, axis=1)))


def random_nodes(r: RandomNodes) -> None:
    """Inputs of the output's own quantization and of another, and floats."""
    y = r.output(r.type(), (2, 9, 5))
    parts = (r.input_like(y, (2, 3, 5)), r.input(y.dtype, (2, 2, 5)), r.input(r.type(), (2, 4, 5)))
    r.node("concat", parts, y, (1,))
    r.node("concat", (r.floats((3, 2)), r.floats((3, 5))), r.float_output((3, 7)), (1,))
