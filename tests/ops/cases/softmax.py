"""softmax: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.arithmetic.softmax_fixed_point import make_table
from qverify.compiler.builder import float_word

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def softmax_last(m: Qdq) -> None:
    m.output(m.quantize(m.op("Softmax", [m.input((3, 11))], axis=-1)))


@reference()
def softmax_channel(m: Qdq) -> None:
    m.output(m.quantize(m.op("Softmax", [m.input((1, 11, 3, 2))], axis=1)))


def random_nodes(r: RandomNodes) -> None:
    outer, depth, inner = r.pick(1, 3), r.pick(2, 11), r.pick(1, 5)
    x = r.input(r.type(), (outer, depth, inner))
    table = r.constant(np.exp(np.linspace(-20, 0, 256)).astype(np.float32))
    y = r.output(x.dtype, (outer, depth, inner))
    r.node("softmax", (x, table), y, (outer, depth, inner, float_word(r.pick(200, 256))))
    for made in (
        make_table(r.pick(1, 5, 20) / 100),
        np.append(np.exp(np.linspace(-20, 0, 256)), r.pick(200, 256)).astype(np.float32),
    ):
        for length in (depth, r.pick(67, 300)):
            x = r.input(r.type(), (outer, length, inner))
            y = r.output(r.type(), (outer, length, inner))
            r.node("softmax", (x, r.constant(made)), y, (outer, length, inner, float_word(r.pick(200, 256))))
