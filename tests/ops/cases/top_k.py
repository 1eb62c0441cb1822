"""top_k: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def the_largest_and_the_smallest(m: Qdq) -> None:
    """A quantized tensor, where many elements are equal."""
    x, k = m.input((3, 50, 7)), m.constant("k", np.array([4], np.int64))
    for axis, largest in ((1, 1), (1, 0), (-1, 1)):
        values = m.op("TopK", [x, k], 2, axis=axis, largest=largest)
        m.output(values)
        m.output(f"{values}_1")


@reference(integer=False)
def the_largest_of_integers(m: Qdq) -> None:
    index = m.op("ArgMax", [m.input((3, 9, 11))], axis=1, keepdims=0)
    values = m.op("TopK", [index, m.constant("k", np.array([4], np.int64))], 2)
    m.output(values)
    m.output(f"{values}_1")


def random_nodes(r: RandomNodes) -> None:
    """Few different values, both zeros, infinities and NaN; one, some and all elements."""
    shape = (3, 11, 5)
    few = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 7], np.float32)
    sources = [r.plain(r.rng.choice(few, shape)), r.floats(shape)]
    sources += [
        r.plain(r.rng.choice([np.iinfo(t).min, np.iinfo(t).max, 0, 1], shape).astype(t)) for t in ("int32", "int64")
    ]
    sources += [r.input(r.type(), shape)]
    for x in sources:
        for axis, kept in ((0, 3), (1, 1), (1, 4), (2, 5)):
            made = tuple(kept if k == axis else n for k, n in enumerate(shape))
            for largest in (0, 1):
                r.node("top_k", (x,), (r.like(x, made), r.plain_output("int64", made)), (axis, largest))
