"""rms_norm: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def root_mean_square_norm(m: Qdq) -> None:
    m.opset = max(m.opset, 23)
    scale = m.constant("s", m.rng.normal(0, 1, 13).astype(np.float32))
    x = m.input((2, 5, 13))
    m.output(m.quantize(m.op("RMSNormalization", [x, scale])))
    m.output(m.op("RMSNormalization", [m.op("Exp", [x]), scale], axis=-1, epsilon=1e-3))


@reference(integer=False)
def simplified_layer_norm(m: Qdq) -> None:
    scale = m.constant("s", m.rng.normal(0, 1, 13).astype(np.float32))
    m.output(m.quantize(m.op("SimplifiedLayerNormalization", [m.input((2, 5, 13)), scale], axis=-1, epsilon=1e-6)))


def random_nodes(r: RandomNodes) -> None:
    gamma = r.floats((11,)) if r.pick(0, 1) else None
    r.node("rms_norm", (r.floats((2, 7, 5, 11)), gamma), r.float_output((2, 7, 5, 11)), (11, float_word(1e-5)))
