"""global_average_pool: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def global_average_pool(m: Qdq) -> None:
    m.output(m.quantize(m.op("GlobalAveragePool", [m.input((2, 5, 7, 9))])))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type(), (2, 3, 11, 13))
    y = r.output(x.dtype, (2, 3, 1, 1))
    r.node("global_average_pool", (x, r.mean(x, y, 143)), y, r.limits(y.dtype))
    point = r.constant(np.array([r.pick(x.zero_point[0], -65536, 7)], np.int32))
    r.node("global_average_pool", (x, point), r.output(x.dtype, (2, 3, 1, 1)), r.limits(x.dtype))
