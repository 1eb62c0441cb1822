"""group_norm: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def _parts(m: Qdq, count: int) -> list[str]:
    return [m.constant(n, m.rng.normal(0, 1, count).astype(np.float32)) for n in "sb"]


@reference(integer=False)
def instance_norm(m: Qdq) -> None:
    x = m.input((2, 5, 7, 9))
    m.output(m.quantize(m.op("InstanceNormalization", [x, *_parts(m, 5)], epsilon=1e-3)))


@reference(integer=False)
def instance_norm_of_sequences(m: Qdq) -> None:
    m.output(m.op("InstanceNormalization", [m.op("Exp", [m.input((2, 3, 17))]), *_parts(m, 3)]))


@reference(integer=False)
def group_norm_of_channels(m: Qdq) -> None:
    m.opset = max(m.opset, 21)
    m.output(m.quantize(m.op("GroupNormalization", [m.input((2, 6, 5, 7)), *_parts(m, 6)], num_groups=3)))


def random_nodes(r: RandomNodes) -> None:
    x, groups = r.floats((2, 6, 5, 7)), r.pick(1, 2, 3, 6)
    parts = [r.floats((6,)) if r.pick(0, 1) else None for _ in range(2)]
    r.node("group_norm", (x, *parts), r.float_output((2, 6, 5, 7)), (groups, float_word(1e-5)))
