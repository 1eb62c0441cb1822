"""gather_nd: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def slices_gathered(m: Qdq) -> None:
    x = m.input((3, 5, 7))
    index = m.constant("index", np.array([[0, -1], [2, 3], [1, 1], [-3, 0]], np.int64))
    m.output(m.quantize(m.op("GatherND", [x, index]), like=x))


@reference(integer=False)
def slices_at_computed_places(m: Qdq) -> None:
    """Adds a GatherND in which each batch has indices of its own: (2, 3, 1) tuples of one index into (2, 5, 7)."""
    x = m.input((2, 5, 7))
    best = m.op("ArgMax", [m.input((2, 5, 3))], axis=1, keepdims=0)
    index = m.op("Unsqueeze", [best, m.constant("last", np.array([2], np.int64))])
    m.output(m.op("GatherND", [x, index], batch_dims=1))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), (3, 5, 7))
    for batch, tuples, depth in (
        (0, (2, 4), 1),
        (0, (4,), 2),
        (0, (2, 2), 3),
        (1, (3, 4), 1),
        (1, (3,), 2),
        (2, (3, 5), 1),
    ):
        sizes = x.shape[batch : batch + depth]
        index = np.stack([r.rng.integers(-n, n, tuples) for n in sizes], -1).astype(r.type("int32", "int64"))
        r.node("gather_nd", (x, r.plain(index)), r.like(x, (*tuples, *x.shape[batch + depth :])), (batch,))
