"""max_pool: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def max_pool(m: Qdq) -> None:
    x = m.input((1, 5, 9, 11))
    m.output(m.quantize(m.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), like=x))


def random_nodes(r: RandomNodes) -> None:
    kh, kw, stride, pad = r.pick(2, 3), r.pick(2, 3), r.pick(1, 2), r.pick(0, 1)
    x = r.input(r.type(), (2, 3, 11, 13))
    shape = (2, 3, (11 + 2 * pad - kh) // stride + 1, (13 + 2 * pad - kw) // stride + 1)
    window = (kh, kw, stride, stride, pad, pad, pad, pad)
    r.node("max_pool", (x,), r.like(x, shape), (*window, 1, 1))
