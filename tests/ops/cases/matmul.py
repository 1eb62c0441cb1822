"""matmul: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def matmul_constant_per_column(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 5, 13)), m.weight((13, 7), axis=1)])))


@reference()
def matmul_two_activations(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 3, 5, 13)), m.input((3, 13, 7), -1, 1)])))


@reference()
def matmul_constant_matrices_per_column(m: Qdq) -> None:
    m.output(m.quantize(m.op("MatMul", [m.input((2, 3, 5, 13)), m.weight((3, 13, 7), axis=2)])))


@reference(integer=False)
def matmul_to_float_per_column(m: Qdq) -> None:
    made = m.op("MatMul", [m.input((2, 5, 13)), m.weight((13, 7), axis=1)])
    m.output(m.op("Add", [made, m.constant("b", m.rng.normal(0, 1, 7).astype(np.float32))]))


@reference(integer=False)
def matmul_to_float_two_activations(m: Qdq) -> None:
    m.output(m.op("Softmax", [m.op("MatMul", [m.input((2, 3, 5, 13)), m.input((3, 13, 7), -1, 1)])], axis=-1))


@reference(integer=False)
def matmul_integer_to_float(m: Qdq) -> None:
    if "16" in m.act:
        return matmul_to_float_per_column(m)
    m.input((2, 5, 13)), m.weight((13, 7), axis=1)
    weight = next(n for n in m.constants if n.endswith("_i8"))
    scales = ["in0_scale", weight.replace("_i8", "_scale"), "in0_zp"]
    m.output(m.op("MatMulIntegerToFloat", ["in0_q", weight, *scales], domain="com.microsoft"))
    m.kinds[m.outputs[-1]] = (2, 5, 7)


def _float_nodes(r: RandomNodes, *types: str) -> None:
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 67, 130)
    a, b = r.input(r.type(*types), (2, 1, rows, depth)), r.input(r.type(), (3, depth, columns))
    scales = r.real_scales(r.pick(1, columns))
    r.node("matmul", (a, b, scales), r.float_output((2, 3, rows, columns)), (0, 0))


def random_nodes(r: RandomNodes) -> None:
    _float_nodes(r)
    _float_nodes(r, "uint16", "int16")
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 67, 130)
    a, b = r.input(r.type(), (2, 1, rows, depth)), r.input(r.type(), (3, depth, columns))
    y = r.output(a.dtype, (2, 3, rows, columns))
    r.node("matmul", (a, b, r.rq(depth, r.pick(1, columns))), y, r.limits(y.dtype))
