"""layer_norm: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def layer_norm(m: Qdq) -> None:
    parts = [m.constant(n, v.astype(np.float32)) for n, v in zip("sb", m.rng.normal(0, 1, (2, 13)), strict=True)]
    m.output(m.quantize(m.op("LayerNormalization", [m.input((2, 5, 13)), *parts], axis=-1)))


def random_nodes(r: RandomNodes) -> None:
    inputs = (r.floats((2, 7, 5, 11)), r.floats((11,)), r.floats((11,)))
    r.node("layer_norm", inputs, r.float_output((2, 7, 5, 11)), (11, float_word(1e-5)))
