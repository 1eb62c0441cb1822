"""quantize: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def quantized_input(m: Qdq) -> None:
    m.output(m.op("Neg", [m.input((2, 3, 5))]))


def random_nodes(r: RandomNodes) -> None:
    """Per tensor and per channel; NaN, both infinities and ties among the values."""
    for channels, axis in ((1, -1), (5, 1)):
        y = r.output(r.type("uint8", "int8", "uint16", "int16"), (2, 5, 7), channels, axis)
        x = r.floats((2, 5, 7))
        ties = (r.rng.integers(-99, 99, (2, 5, 7)) + 0.5) * y.scale[0]
        value = np.where(r.rng.random((2, 5, 7)) < 0.3, ties, r.values[x.name]).astype(np.float32)
        value.flat[:3] = np.nan, np.inf, -np.inf
        r.values[x.name] = value
        r.node("quantize", (x,), y)
