"""resizer: random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.random_nodes import RandomNodes

NO_REFERENCE = "onnxruntime has no such operator: bytes a chip is fed; tests/ops/test_preprocessing.py holds it"


def random_nodes(r: RandomNodes) -> None:
    """A random part of a picture to a random size, larger or smaller."""
    height, width = r.pick(1, 5, 13), r.pick(1, 7, 19)
    left, top = int(r.rng.integers(width)), int(r.rng.integers(height))
    part = (left, top, int(r.rng.integers(1, width - left + 1)), int(r.rng.integers(1, height - top + 1)))
    x = r.plain(r.rng.integers(0, 256, (2, 3, height, width), np.uint8).view(r.type()))
    y = r.plain_output(x.dtype, (2, 3, r.pick(1, 4, 11), r.pick(1, 6, 17)))
    r.node("resizer", (x, r.plain(np.array(part, np.int32))), y)
