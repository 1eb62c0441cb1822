"""unpack: random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.random_nodes import RandomNodes

NO_REFERENCE = "onnxruntime has no such operator: bytes a chip is fed; tests/ops/test_preprocessing.py holds it"


def random_nodes(r: RandomNodes) -> None:
    """Bytes with random strides to a picture of every type."""
    for dtype in ("uint8", "int8", "int16", "float32"):
        height, width, size = r.pick(1, 4, 9), r.pick(1, 6, 11), np.dtype(dtype).itemsize
        shift, column = r.pick(0, 1), size * r.pick(1, 2, 3)
        row, offsets = column * width + r.pick(0, 5), [r.pick(0, 1, 7) for _ in range(3)]
        value = r.rng.integers(0, 256, max(offsets) + row * height, np.uint8)
        if dtype == "float32":
            value &= np.uint8(0x3F)  # no NaN, whose bits arithmetic may change
        words = (4, *offsets, *[row] * 3, *[column] * 3, 0, *[shift] * 2)
        r.node("unpack", (r.plain(value),), r.plain_output(dtype, (1, 3, height, width)), words)
