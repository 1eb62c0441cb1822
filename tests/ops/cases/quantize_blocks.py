"""quantize_blocks: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.cases.matmul_float import n_bits
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def blocks_that_two_products_share(m: Qdq) -> None:
    """Blocks of 32 of a row of 70, and of 16 of the same row."""
    x = m.op("Tanh", [m.input((2, 3, 70))])
    for columns, size in ((5, 32), (7, 32), (3, 16)):
        m.output(n_bits(m, x, 70, columns, 4, size=size, zeros="packed", accuracy_level=4))


@reference(integer=False)
def blocks_of_zeros(m: Qdq) -> None:
    """Half of the blocks contain zeros only."""
    x = m.op("Mul", [m.op("Relu", [m.input((3, 64))]), m.constant("mask", np.repeat([0, 1, 1, 0], 16).astype("f"))])
    m.output(n_bits(m, x, 64, 5, 8, accuracy_level=4))


def random_nodes(r: RandomNodes) -> None:
    """Ties, short last blocks, blocks of zeros, the smallest and largest floats, NaN and infinities."""
    length = r.pick(1, 16, 32, 128)
    depth = length * r.pick(1, 2, 3) + r.pick(0, 1, 7) % length
    blocks = -(-depth // length) + r.pick(0, 2)  # those at the end without elements are 0
    floats = r.rng.normal(0, 1, (2, 3, depth)) * 10.0 ** r.pick(-3, 0, 4)
    ties = r.rng.integers(-254, 255, (5, depth)) / 2
    ties[:, ::length] = 127.0
    zeros = np.where(r.rng.random((3, depth)) < 0.9, 0.0, 1.0)
    ends = r.rng.choice([-3.4e38, 3.4e38, 1.0, 1e-45], (3, depth))
    small = r.rng.normal(0, 1, (3, depth)) * 10.0 ** r.rng.choice([-35, -36, -37, -40, -44], (3, 1))
    special = r.rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 2.0], (3, depth))
    some = np.where(r.rng.random((3, depth)) < 0.1, np.nan, r.rng.normal(size=(3, depth)))
    for value in (floats, floats[0, 0], ties, zeros, ends, small, special, some):
        x = r.plain(value.astype(np.float32))
        shape = (*x.shape[:-1], blocks, length)
        r.node("quantize_blocks", (x,), (r.plain_output("int8", shape), r.float_output((*shape[:-1], 1))))
