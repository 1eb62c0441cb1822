"""arg_max: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def arg_max_of_dequantized(m: Qdq) -> None:
    m.output(m.op("ArgMax", [m.input((2, 11, 3))], axis=1, keepdims=0))


def random_nodes(r: RandomNodes) -> None:
    """Adds an ArgMax over few different values, so that the first and the last maximum differ."""
    x = r.floats((3, 11, 5))
    r.values[x.name] = np.round(r.values[x.name] / 3)
    for last in (0, 1):
        r.node("arg_max", (x,), r.plain_output("int64", (3, 5)), (1, last))
        r.node("arg_max", (r.plain(r.rng.integers(-3, 3, (3, 11, 5))),), r.plain_output("int64", (3, 5)), (1, last))
