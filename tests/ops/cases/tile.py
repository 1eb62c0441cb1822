"""tile: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def tiled(m: Qdq) -> None:
    x = m.input((2, 5, 3))
    m.output(m.quantize(m.op("Tile", [x, m.constant("repeats", np.array([1, 3, 2], np.int64))]), like=x))


@reference()
def expanded(m: Qdq) -> None:
    x = m.input((5, 1, 3))
    m.output(m.quantize(m.op("Expand", [x, m.constant("shape", np.array([2, 1, 7, 1], np.int64))]), like=x))


@reference(integer=False)
def expanded_indices(m: Qdq) -> None:
    index = m.op("ArgMax", [m.input((2, 11, 3))], axis=1, keepdims=1)
    m.output(m.op("Expand", [index, m.constant("shape", np.array([2, 7, 3], np.int64))]))


def random_nodes(r: RandomNodes) -> None:
    for source, target in (
        ((2, 5, 3), (4, 5, 9)),
        ((5, 1), (2, 5, 7)),
        ((3,), (2, 1, 9)),
        ((), (3, 5)),
        ((7, 1, 1), (7, 1, 11)),
    ):
        x = r.input(r.type("uint8", "int8", "uint16", "int16"), source)
        r.node("tile", (x,), r.like(x, target))
        wide = r.plain(r.rng.integers(-9, 9, source))
        r.node("tile", (wide,), r.plain_output("int64", target))
