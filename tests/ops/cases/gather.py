"""gather: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def gathered(m: Qdq) -> None:
    x = m.input((2, 5, 7))
    m.output(m.quantize(m.op("Gather", [x, m.constant("index", np.array([3, 0, -1], np.int64))], axis=1), like=x))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), (2, 5, 7))
    indices = r.constant(r.rng.integers(-5, 5, (3, 2)))
    r.node("gather", (x, indices), r.like(x, (2, 3, 2, 7)), (1,))
