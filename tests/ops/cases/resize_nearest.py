"""resize_nearest: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def resize_nearest(m: Qdq) -> None:
    x, scales = m.input((1, 3, 5, 7)), m.constant("scales", np.array([1, 1, 2, 3], np.float32))
    y = m.op(
        "Resize", [x, "", scales], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    m.output(m.quantize(y, like=x))


def random_nodes(r: RandomNodes) -> None:
    shape, out = (1, 3, 5, 7), (1, 3, 11, 4)
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), shape)
    index = np.concatenate([np.sort(r.rng.integers(0, n, m)) for n, m in zip(shape, out, strict=True)])
    r.node("resize_nearest", (x, r.constant(index.astype(np.int32))), r.like(x, out))
