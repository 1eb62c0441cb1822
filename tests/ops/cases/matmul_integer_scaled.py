"""matmul_integer_scaled: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.cases.matmul_integer import dynamic, integers, whole, zero_of
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def _floats(m: Qdq, shape: tuple[int, ...], low: float, high: float) -> str:
    return m.constant(f"f{len(m.constants)}", m.rng.uniform(low, high, shape).astype(np.float32))


@reference(integer=False)
def dynamic_quantize_matmul(m: Qdq) -> None:
    x = m.op("Tanh", [m.input((2, 5, 13))])
    for dtype, count, bias in (("int8", (), True), ("uint8", (7,), False)):
        inputs = [x, integers(m, (13, 7), dtype), _floats(m, count, 0.01, 0.1), integers(m, count, dtype)]
        y = m.op(
            "DynamicQuantizeMatMul", [*inputs, *([_floats(m, (7,), -3, 3)] if bias else [])], domain="com.microsoft"
        )
        m.kinds[y] = (2, 5, 7)
        m.output(y)


@reference(integer=False)
def integer_matmul_with_a_bias(m: Qdq) -> None:
    x, w, scale = dynamic(m, (5, 13)), integers(m, (13, 7), "int8"), _floats(m, (), 0.01, 0.1)
    inputs = [x, w, f"{x}_1", scale, f"{x}_2", m.constant("z", np.int8(3)), _floats(m, (7,), -3, 3)]
    y = m.op("MatMulIntegerToFloat", inputs, domain="com.microsoft")
    m.kinds[y] = (5, 7)
    m.output(y)


def random_nodes(r: RandomNodes) -> None:
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 31, 67)
    for left, right in (((2, 1), (3,)), ((), ())):
        a, b = whole(r, (*left, rows, depth)), whole(r, (*right, depth, columns), bool(r.pick(0, 1)))
        scales = [r.plain(r.rng.uniform(1e-4, 1e-1, n).astype(np.float32)) for n in (1, r.pick(1, columns))]
        bias = r.float_bias(columns) if r.pick(0, 1) else None
        shape = (*np.broadcast_shapes(left, right), rows, columns)
        inputs = (a, b, zero_of(r, a), zero_of(r, b, r.pick(0, columns)), *scales, bias)
        r.node("matmul_integer_scaled", inputs, r.float_output(shape))
