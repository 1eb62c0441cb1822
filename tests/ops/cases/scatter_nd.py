"""scatter_nd: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def slices_scattered(m: Qdq) -> None:
    """The way a key-value cache is written: one row at a position that is computed."""
    cache, row = m.input((5, 7)), m.input((1, 7))
    place = m.op("ArgMax", [m.input((1, 5))], axis=1)
    m.output(m.op("ScatterND", [cache, place, row]))


@reference(integer=False)
def slices_added(m: Qdq) -> None:
    m.opset = max(m.opset, 18)
    x, updates = m.input((5, 3)), m.input((2, 3))
    index = m.constant("index", np.array([[4], [-4]], np.int64))
    for kind in ("add", "mul", "max", "min"):
        m.output(m.op("ScatterND", [x, index, updates], reduction=kind))


def random_nodes(r: RandomNodes) -> None:
    """Tuples of 1 to 3 indices, some of them twice."""
    shape = (3, 5, 7)
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), shape)
    for tuples, depth in (((2, 4), 1), ((4,), 2), ((2, 20), 3)):
        index = np.stack([r.rng.integers(-n, n, tuples) for n in shape[:depth]], -1).astype(r.type("int32", "int64"))
        at, part = r.plain(index), (*tuples, *shape[depth:])
        r.node("scatter_nd", (x, at, r.input_like(x, part)), r.like(x, shape), (0,))
        for reduction in range(5):
            r.node("scatter_nd", (r.floats(shape), at, r.floats(part)), r.float_output(shape), (reduction,))
            for dtype in ("int32", "int64"):
                a, b = (r.plain(r.rng.integers(-(2**31), 2**31, s).astype(dtype)) for s in (shape, part))
                r.node("scatter_nd", (a, at, b), r.plain_output(dtype, shape), (reduction,))
