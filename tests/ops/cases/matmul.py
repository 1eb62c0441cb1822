"""matmul: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def matmul_constant_per_column(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 5, 13)), m.weight((13, 7), axis=1)])))


@reference()
def matmul_two_activations(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 3, 5, 13)), m.input((3, 13, 7), -1, 1)])))


def random_nodes(r: RandomNodes) -> None:
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 67, 130)
    a, b = r.input(r.type(), (2, 1, rows, depth)), r.input(r.type(), (3, depth, columns))
    y = r.output(a.dtype, (2, 3, rows, columns))
    r.node("matmul", (a, b, r.rq(depth, r.pick(1, columns))), y, r.limits(y.dtype))
