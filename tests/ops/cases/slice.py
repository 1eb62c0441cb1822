"""slice: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def sliced(m: Qdq) -> None:
    x = m.input((1, 7, 9, 11))
    at = [
        m.constant(n, np.array(v, np.int64)) for n, v in (("a", [1, -2]), ("b", [6, 0]), ("c", [1, 2]), ("d", [2, -3]))
    ]
    m.output(m.quantize(m.op("Slice", [x, *at]), like=x))


def random_nodes(r: RandomNodes) -> None:
    """Forward and backward, in steps."""
    shape, cuts = (5, 9, 11), (slice(1, 4), slice(None, None, -2), slice(r.pick(0, 2), None, r.pick(1, 3)))
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), shape)
    ranges = [range(*cut.indices(n)) for cut, n in zip(cuts, shape, strict=True)]
    y = r.like(x, tuple(len(at) for at in ranges))
    r.node("slice", (x,), y, (*(at.start for at in ranges), *(at.step for at in ranges)))
