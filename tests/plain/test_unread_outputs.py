"""One half of a Split is quantized and then read by nothing, as in the head of a network of which one output was cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.ops.qdq import Qdq
from tests.plain.verified_model import verified


def test_a_half_that_is_quantized_and_never_read(tmp_path: Path) -> None:
    m = Qdq(seed=5)
    x = m.input((1, 6, 4))
    m.op("Split", [x, m.constant("sizes", np.array([3, 3], np.int64))], axis=1, outputs=2)
    halves = m.nodes[-1].output
    scale, zero = m.parameters(-1.0, 2.0, "uint8")
    m.output(m.pair(halves[0], scale, zero))
    m.pair(halves[1], scale, zero)
    graph = verified(m.model(), tmp_path)
    assert halves[1] in graph.observable()
