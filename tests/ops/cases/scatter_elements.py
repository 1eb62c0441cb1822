"""scatter_elements: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def elements_scattered(m: Qdq) -> None:
    x, updates = m.input((3, 5, 7)), m.input((3, 1, 7))
    m.output(m.op("ScatterElements", [x, m.op("ArgMax", [x], axis=1), updates], axis=1))


@reference(integer=False)
def elements_added(m: Qdq) -> None:
    """Onto one another: the index 1 three times."""
    m.opset = max(m.opset, 18)
    x, updates = m.input((3, 5)), m.input((3, 4))
    index = m.constant("index", np.tile(np.array([1, 4, 1, 1], np.int64), (3, 1)))
    for kind in ("add", "mul", "max", "min"):
        m.output(m.op("ScatterElements", [x, index, updates], axis=1, reduction=kind))


def random_nodes(r: RandomNodes) -> None:
    shape = (3, 5, 7)
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), shape)
    for axis, part in ((0, (11, 5, 2)), (1, (3, 9, 7)), (2, (2, 3, 5))):
        index = r.plain(r.rng.integers(-shape[axis], shape[axis], part).astype(r.type("int32", "int64")))
        r.node("scatter_elements", (x, index, r.input_like(x, part)), r.like(x, shape), (axis, 0))
        for reduction in range(5):
            r.node(
                "scatter_elements", (r.floats(shape), index, r.floats(part)), r.float_output(shape), (axis, reduction)
            )
            for dtype in ("int32", "int64"):
                a, b = (r.plain(r.rng.integers(-(2**31), 2**31, s).astype(dtype)) for s in (shape, part))
                r.node("scatter_elements", (a, index, b), r.plain_output(dtype, shape), (axis, reduction))
