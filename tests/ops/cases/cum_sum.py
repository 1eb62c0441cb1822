"""cum_sum: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def running_sums(m: Qdq) -> None:
    x = m.input((3, 5, 7))
    for axis, exclusive, reverse in ((0, 0, 0), (1, 1, 0), (-1, 0, 1), (1, 1, 1)):
        at = m.constant(f"axis{axis}{exclusive}{reverse}", np.array(axis, np.int64))
        m.output(m.op("CumSum", [x, at], exclusive=exclusive, reverse=reverse))


@reference(integer=False)
def running_sums_of_integers(m: Qdq) -> None:
    """Adds a CumSum that computes positions from an attention mask."""
    mask = m.op("Cast", [m.op("Greater", [m.input((3, 7)), m.constant("c", np.float32(0.5))])], to=7)
    m.output(m.op("CumSum", [mask, m.constant("axis", np.array(1, np.int64))]))


def random_nodes(r: RandomNodes) -> None:
    shape = (3, 5, 7)
    for axis, exclusive, reverse in np.ndindex(3, 2, 2):
        words = (axis, exclusive, reverse)
        r.node("cum_sum", (r.floats(shape),), r.float_output(shape), words)
        for dtype in ("int32", "int64"):
            ends = np.iinfo(dtype)
            r.node(
                "cum_sum",
                (r.plain(r.rng.integers(ends.min, ends.max, shape, dtype)),),
                r.plain_output(dtype, shape),
                words,
            )
