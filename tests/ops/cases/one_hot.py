"""one_hot: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def one_hot_of_the_largest(m: Qdq) -> None:
    """Deeper than the indices reach, and less deep, so that some are outside."""
    index = m.op("ArgMax", [m.input((3, 11))], axis=1, keepdims=0)
    values = m.constant("values", np.array([0.25, -1.5], np.float32))
    for axis, depth in ((-1, 13), (0, 4)):
        m.output(m.op("OneHot", [index, m.constant(f"d{depth}", np.array(depth, np.int64)), values], axis=axis))


def random_nodes(r: RandomNodes) -> None:
    """Negative indices, and such as are outside on both sides."""
    for axis, shape in ((0, (5, 3, 7)), (1, (3, 5, 7)), (2, (3, 7, 5))):
        index = r.plain(r.rng.integers(-9, 9, (3, 7)).astype(r.type("int32", "int64")))
        r.node("one_hot", (index, r.floats((2,))), r.float_output(shape), (axis,))
        r.node("one_hot", (index, r.constant(np.array([-3, 2**40]))), r.plain_output("int64", shape), (axis,))
