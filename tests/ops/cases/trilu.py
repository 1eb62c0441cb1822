"""trilu: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def triangles(m: Qdq) -> None:
    x = m.input((2, 5, 7))
    for upper, diagonal in ((0, -9), (1, 0), (1, -2), (0, 1)):
        m.output(m.op("Trilu", [x, m.constant(f"k{upper}{diagonal}", np.array(diagonal, np.int64))], upper=upper))


def random_nodes(r: RandomNodes) -> None:
    for dtype in ("float32", "int64", "int32", "bool"):
        x = r.plain(r.rng.integers(0, 2, (2, 5, 7)).astype(dtype))
        for diagonal in (-9, -2, 0, 3, 9):
            for upper in (0, 1):
                r.node("trilu", (x,), r.plain_output(dtype, (2, 5, 7)), (diagonal, upper))
