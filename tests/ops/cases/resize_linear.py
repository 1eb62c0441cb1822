"""resize_linear: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def resize_linear(m: Qdq) -> None:
    x, sizes = m.input((1, 3, 5, 7)), m.constant("sizes", np.array([1, 3, 11, 13], np.int64))
    m.output(m.quantize(m.op("Resize", [x, "", "", sizes], mode="linear"), like=x))


def random_nodes(r: RandomNodes) -> None:
    """On integers, rounded, truncated, half up in two orders and in two fixed points, and on floats."""
    rows, columns, high, wide = 5, 7, r.pick(3, 11), r.pick(4, 13)
    sizes = ((rows, high), (rows, high), (columns, wide), (columns, wide))
    index = r.constant(np.concatenate([r.rng.integers(0, n, m) for n, m in sizes]).astype(np.int32))
    weight = r.constant(r.rng.random(2 * (high + wide)).astype(np.float32) / np.float32(2))
    x = r.input(r.type(), (2, 3, rows, columns))
    for truncate in (0, 1):
        r.node("resize_linear", (x, index, weight), r.like(x, (2, 3, high, wide)), (truncate,))
    x = r.input(r.type("uint8", "int8"), (2, 3, rows, columns))
    for truncate in (3, 4):
        r.node("resize_linear", (x, index, weight), r.like(x, (2, 3, high, wide)), (truncate,))
    whole = r.constant(r.rng.integers(-2048, 2049, 2 * (high + wide)).astype(np.int32))
    for truncate in (2, 5):
        r.node("resize_linear", (x, index, whole), r.like(x, (2, 3, high, wide)), (truncate,))
    floats = r.floats((2, 3, rows, columns))
    r.node("resize_linear", (floats, index, weight), r.float_output((2, 3, high, wide)), (0,))
