"""matmul_float: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word

from tests.ops.cases.conv_float import floats, values
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def matmul_of_float_weights(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 5, 13)), floats(m, (13, 7))])))


@reference(integer=False)
def matmul_of_two_float_activations(m: Qdq) -> None:
    a, b = m.op("Sigmoid", [m.input((2, 3, 5, 13))]), m.op("Tanh", [m.input((3, 13, 7), -1, 1)])
    m.output(m.op("MatMul", [a, b]))


@reference(integer=False)
def matmul_of_a_vector(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((3, 5, 13)), floats(m, (13,))])))


@reference(integer=False)
def gemm_of_floats(m: Qdq) -> None:
    x = m.input((5, 13))
    y = m.op("Gemm", [x, floats(m, (7, 13)), floats(m, (7,))], transB=1)
    m.output(m.quantize(m.op("Gemm", [y, floats(m, (5, 3)), floats(m, (7, 1))], transA=1, alpha=0.3, beta=-1.7)))


@reference(integer=False)
def gemm_with_beta_and_no_alpha(m: Qdq) -> None:
    m.output(m.quantize(m.op("Gemm", [m.input((5, 13)), floats(m, (13, 3)), floats(m, (5, 3))], beta=0.37)))


def random_nodes(r: RandomNodes) -> None:
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 31, 67)
    one = float_word(1.0)
    batch = (r.plain(values(r, (2, 1, rows, depth))), r.plain(values(r, (3, depth, columns))), None)
    r.node("matmul_float", batch, r.float_output((2, 3, rows, columns)), (0, 0, one, one))
    shared = (
        r.plain(values(r, (2, 3, rows, depth))),
        r.plain(values(r, (columns, depth))),
        r.plain(values(r, (columns,))),
    )
    r.node("matmul_float", shared, r.float_output((2, 3, rows, columns)), (0, 1, one, one))
    a, c = r.plain(values(r, (depth, rows))), r.plain(values(r, (rows, 1)))
    words = (1, 0, float_word(float(r.rng.choice([1.0, 0.3]))), float_word(-1.7))
    r.node("matmul_float", (a, r.plain(values(r, (depth, columns))), c), r.float_output((rows, columns)), words)
    v = values(r, (depth,))
    v[-1] = r.rng.choice([np.inf, 1.0])
    r.node(
        "matmul_float",
        (r.plain(v), r.plain(values(r, (4, depth, columns))), None),
        r.float_output((4, columns)),
        (0, 0, one, one),
    )
    r.node("matmul_float", (r.plain(v), r.plain(values(r, (depth,))), None), r.float_output(()), (0, 0, one, one))
