"""split: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def split_two_outputs(m: Qdq) -> None:
    x = m.input((1, 7, 5))
    sizes = m.constant("sizes", np.array([3, 4], np.int64))
    name = m.op("Split", [x, sizes], 2, axis=1)
    m.output(m.quantize(name, like=x))
    m.output(m.quantize(f"{name}_1", like=x))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), (2, 7, 5))
    r.node("split", (x,), (r.like(x, (2, 1, 5)), r.like(x, (2, 4, 5)), r.like(x, (2, 2, 5))), (1,))
