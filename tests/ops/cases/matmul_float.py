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


@reference(integer=False)
def matmul_of_weights_in_blocks(m: Qdq) -> None:
    """Blocks along both axes of a weight; the last block of K is shorter."""
    m.opset = 21
    first = blocked(m, (45, 24), np.int8, 16, axis=0)
    y = m.op("Tanh", [m.op("MatMul", [m.op("Sigmoid", [m.input((2, 5, 45))]), first])])
    m.output(m.op("MatMul", [y, blocked(m, (24, 32), np.uint8, 8, axis=1)]))


@reference(integer=False)
def matmul_n_bits_of_4(m: Qdq) -> None:
    x = m.quantize(n_bits(m, m.input((2, 5, 45)), 45, 24, 4, zeros="packed"))
    m.output(m.quantize(n_bits(m, x, 24, 7, 4, bias=True)))


@reference(integer=False)
def matmul_n_bits_of_2_and_8(m: Qdq) -> None:
    x = m.op("Tanh", [n_bits(m, m.input((3, 70)), 70, 33, 2, size=32, zeros="float")])
    x = m.op("Tanh", [n_bits(m, x, 33, 48, 8, bias=True, zeros="packed")])
    m.output(m.quantize(n_bits(m, x, 48, 9, 2, zeros="packed")))


def blocked(m: Qdq, shape: tuple[int, int], kind: type[np.generic], size: int, axis: int) -> str:
    """A constant behind a DequantizeLinear with one scale and zero point for each block along an axis."""
    blocks = [-(-s // size) if at == axis else s for at, s in enumerate(shape)]
    limits, at = np.iinfo(kind), len(m.constants)
    value, zeros = (m.rng.integers(limits.min, limits.max + 1, s).astype(kind) for s in (shape, blocks))
    scales = m.constant(f"scales{at}", m.rng.uniform(0.001, 0.01, blocks).astype(np.float32))
    stored = [m.constant(f"weight{at}", value), scales, m.constant(f"zeros{at}", zeros)]
    return m.op("DequantizeLinear", stored, axis=axis, block_size=size)


def n_bits(
    m: Qdq,
    x: str,
    depth: int,
    columns: int,
    bits: int,
    size: int = 16,
    zeros: str = "",
    bias: bool = False,
    **more: int,
) -> str:
    """A MatMulNBits of random bytes. zeros: "packed", "float" or none; more: further attributes."""
    blocks, at = -(-depth // size), len(m.constants)
    inputs = [
        x,
        m.constant(f"weight{at}", m.rng.integers(0, 256, (columns, blocks, size * bits // 8), np.uint8)),
        m.constant(f"scales{at}", m.rng.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32)),
        "",
        "",
        m.constant(f"bias{at}", m.rng.normal(size=columns).astype(np.float32)) if bias else "",
    ]
    packed = m.rng.integers(0, 256, (columns, -(-blocks * bits // 8)), np.uint8)
    real = m.rng.uniform(0, (1 << bits) - 1, (columns, blocks)).astype(np.float32)
    if zeros:
        inputs[3] = m.constant(f"zeros{at}", packed if zeros == "packed" else real)
    while not inputs[-1]:
        inputs.pop()
    attrs = {"K": depth, "N": columns, "bits": bits, "block_size": size, **more}
    return m.op("MatMulNBits", inputs, domain="com.microsoft", **attrs)


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
