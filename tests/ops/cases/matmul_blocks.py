"""matmul_blocks: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.cases.matmul_float import n_bits
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def integer_blocks_of_4_bits(m: Qdq) -> None:
    x = m.quantize(n_bits(m, m.input((2, 5, 45)), 45, 24, 4, zeros="packed", accuracy_level=4))
    m.output(m.quantize(n_bits(m, x, 24, 7, 4, bias=True, accuracy_level=4)))


@reference(integer=False)
def integer_blocks_of_2_and_8_bits(m: Qdq) -> None:
    x = m.op("Tanh", [n_bits(m, m.input((3, 70)), 70, 33, 2, size=32, accuracy_level=4)])
    x = m.op("Tanh", [n_bits(m, x, 33, 48, 8, bias=True, zeros="packed", accuracy_level=4)])
    m.output(m.quantize(n_bits(m, x, 48, 9, 2, size=64, zeros="packed", accuracy_level=4)))


@reference(integer=False)
def integer_blocks_longer_than_256(m: Qdq) -> None:
    """onnxruntime rounds the activations in blocks of 256."""
    x = m.op("Tanh", [m.input((2, 600))])
    m.output(n_bits(m, x, 600, 5, 4, size=512, zeros="packed", accuracy_level=4))


def random_nodes(r: RandomNodes) -> None:
    columns, blocks, length = r.pick(1, 5, 31), r.pick(1, 3, 8), r.pick(1, 16, 32, 127, 256)
    for lead in ((), (3,), (2, 3)):
        q = r.rng.integers(-128, 128, (*lead, blocks, length))
        w, z = r.rng.integers(0, 256, (columns, blocks, length)), r.rng.integers(0, 256, (columns, blocks))
        if r.pick(0, 1):  # the largest sums
            q[:], w[:], z[:] = -128, 255, 0
        s = r.rng.normal(0, 1, (*lead, blocks, 1)) * 10.0 ** r.pick(-40, -20, 0, 20)
        sw = r.rng.normal(0, 1, (columns, blocks)) * 10.0 ** r.pick(-20, 0, 18)
        if r.pick(0, 1):
            s.reshape(-1)[-1] = r.rng.choice([np.nan, np.inf, 0.0])
        inputs = (
            r.plain(q.astype(np.int8)),
            r.plain(s.astype(np.float32)),
            *(r.constant(v.astype(t)) for v, t in ((w, np.uint8), (sw, np.float32), (z, np.uint8))),
            r.float_bias(columns) if r.pick(0, 1) else None,
        )
        r.node("matmul_blocks", inputs, r.float_output((*lead, columns)))
