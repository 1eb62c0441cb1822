"""matmul_integer: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.tensors.spec import TensorSpec

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def dynamic(m: Qdq, shape: tuple[int, ...]) -> str:
    """An input that is quantized at run time; NAME_1 is its scale, NAME_2 its zero point."""
    return m.op("DynamicQuantizeLinear", [m.op("Tanh", [m.input(shape)])], 3)


def integers(m: Qdq, shape: tuple[int, ...], dtype: str) -> str:
    """A constant of integers of the whole range."""
    limits = np.iinfo(dtype)
    return m.constant(f"i{len(m.constants)}", m.rng.integers(limits.min, limits.max + 1, shape).astype(dtype))


def scaled(m: Qdq, y: str, x: str, scale: np.ndarray) -> None:
    """The float output that quantize_dynamic writes behind an integer operator."""
    by = m.op("Mul", [f"{x}_1", m.constant(f"s{len(m.constants)}", scale.astype(np.float32))])
    m.output(m.op("Mul", [m.op("Cast", [y], to=1), by]))


@reference(integer=False)
def dynamic_matmul(m: Qdq) -> None:
    x = dynamic(m, (2, 5, 13))
    y = m.op("MatMulInteger", [x, integers(m, (13, 7), "int8"), f"{x}_2", m.constant("z", np.int8(0))])
    scaled(m, y, x, np.array(0.01))


@reference(integer=False)
def dynamic_matmul_of_zero_points_per_column(m: Qdq) -> None:
    x = dynamic(m, (5, 13))
    w, z = integers(m, (13, 7), "uint8"), integers(m, (7,), "uint8")
    scaled(m, m.op("MatMulInteger", [x, w, f"{x}_2", z]), x, m.rng.uniform(0.001, 0.1, 7))


@reference(integer=False)
def dynamic_matmul_of_two_activations(m: Qdq) -> None:
    a, b = dynamic(m, (2, 3, 5, 13)), dynamic(m, (3, 13, 7))
    m.output(m.op("MatMulInteger", [a, b, f"{a}_2", f"{b}_2"]))


@reference(integer=False)
def integer_matmul_without_zero_points(m: Qdq) -> None:
    x = dynamic(m, (4, 31))
    m.output(m.op("MatMulInteger", [x, integers(m, (31, 3), "int8")]))


def whole(r: RandomNodes, shape: tuple[int, ...], constant: bool = False) -> TensorSpec:
    """Integers of 8 bits of one type, many of them its ends."""
    limits = np.iinfo(r.type())
    values = r.rng.integers(limits.min, limits.max + 1, shape)
    ends = r.rng.random(shape)
    values = np.where(ends < 0.1, limits.min, np.where(ends > 0.9, limits.max, values)).astype(limits.dtype)
    return r.constant(values) if constant else r.plain(values)


def zero_of(r: RandomNodes, x: TensorSpec, count: int = 0) -> TensorSpec | None:
    """A zero point of x's type, or count of them; sometimes none."""
    limits = np.iinfo(x.dtype)
    kind = r.pick(0, 1, 2)
    if kind == 0:
        return None
    value = np.asarray(r.rng.integers(limits.min, limits.max + 1, (count,) if count else ()), x.dtype)
    return r.plain(value) if kind == 1 else r.constant(value.reshape(-1))


def random_nodes(r: RandomNodes) -> None:
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 31, 67)
    for left, right in (((2, 1), (3,)), ((), ()), ((1,), (2, 3)), ((3,), ())):
        a, b = whole(r, (*left, rows, depth)), whole(r, (*right, depth, columns), bool(r.pick(0, 1)))
        shape = (*np.broadcast_shapes(left, right), rows, columns)
        inputs = (a, b, zero_of(r, a, r.pick(0, 1)), zero_of(r, b, r.pick(0, columns)))
        r.node("matmul_integer", inputs, r.plain_output("int32", shape))
    full = r.plain(np.full((1, 34000), 255, np.uint8))  # 34000 * 255 * 255 wraps
    inputs = (full, r.plain(np.full((34000, 1), 255, np.uint8)), None, None)
    r.node("matmul_integer", inputs, r.plain_output("int32", (1, 1)))
