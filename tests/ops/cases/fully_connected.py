"""fully_connected: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def gemm_transposed_weight(m: Qdq) -> None:
    x, w = m.input((3, 17)), m.weight((11, 17))
    m.output(m.quantize(m.op("Gemm", [x, w, m.bias(x, w, 11)], transB=1), crop=0.8))


@reference()
def gemm_plain_weight(m: Qdq) -> None:
    m.output(m.quantize(m.op("Gemm", [m.input((1, 17)), m.weight((17, 5))])))


def random_nodes(r: RandomNodes) -> None:
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 67, 130)
    x, weight = r.input(r.type(), (rows, depth)), r.weights(r.type(), (columns, depth), columns)
    bias = r.constant(r.rng.integers(-9000, 9000, columns).astype(np.int32))
    y = r.output(r.type(), (rows, columns))
    r.node("fully_connected", (x, weight, bias, r.rq(depth, columns)), y, r.limits(y.dtype))
