"""pad: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def padded_with_zero(m: Qdq) -> None:
    x = m.input((1, 3, 5, 7))
    m.output(m.quantize(m.op("Pad", [x, m.constant("pads", np.array([0, 0, 1, 2, 0, 1, 0, 3], np.int64))]), like=x))


@reference()
def padded_reflected(m: Qdq) -> None:
    x = m.input((1, 3, 5, 7))
    pads = m.constant("pads", np.array([0, 0, 1, 2, 0, 0, 2, 3], np.int64))
    m.output(m.quantize(m.op("Pad", [x, pads], mode="reflect"), like=x))


def random_nodes(r: RandomNodes) -> None:
    """Every mode; floats with a constant of their own bits."""
    begin, end = [r.pick(0, 1, 2) for _ in range(3)], [r.pick(0, 1, 2) for _ in range(3)]
    shape = (3, 5, 7)
    padded = tuple(b + n + e for b, n, e in zip(begin, shape, end, strict=True))
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), shape)
    for mode in range(3):
        r.node("pad", (x,), r.like(x, padded), (mode, x.zero_point[0], *begin))
    r.node("pad", (r.floats(shape),), r.float_output(padded), (0, float_word(-1.5), *begin))
