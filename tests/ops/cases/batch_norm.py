"""batch_norm: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def batch_norm(m: Qdq) -> None:
    parts = [m.constant(n, v.astype(np.float32)) for n, v in zip("sbmv", m.rng.uniform(0.5, 2, (4, 5)), strict=True)]
    m.output(m.quantize(m.op("BatchNormalization", [m.input((2, 5, 3, 7)), *parts])))


@reference(integer=False)
def batch_norm_of_shared_parameters(m: Qdq) -> None:
    """Quantized parameters behind the Identity that torch writes for a constant that several modules share."""
    shared = m.op("Identity", [m.weight((5,), "uint8")])
    parts = [m.constant(n, v.astype(np.float32)) for n, v in zip("mv", m.rng.uniform(0.5, 2, (2, 5)), strict=True)]
    gamma = m.quantize(shared, "int8")
    m.output(m.quantize(m.op("BatchNormalization", [m.input((2, 5, 3, 7)), gamma, shared, *parts])))


def random_nodes(r: RandomNodes) -> None:
    inputs = (r.floats((2, 7, 5, 11)), r.floats((7,)), r.floats((7,)))
    r.node("batch_norm", inputs, r.float_output((2, 7, 5, 11)))
