"""average_pool: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.arithmetic.forms import make_rq
from qverify.arithmetic.multipliers import parameters

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def average_pool_padded(m: Qdq) -> None:
    pool = m.op("AveragePool", [m.input((1, 5, 9, 11))], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    m.output(m.quantize(pool))


@reference()
def average_pool_count_pad(m: Qdq) -> None:
    pool = m.op("AveragePool", [m.input((1, 5, 9, 11))], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    m.output(m.quantize(pool))


def random_nodes(r: RandomNodes) -> None:
    kh, kw, stride, pad = r.pick(2, 3), r.pick(2, 3), r.pick(1, 2), r.pick(0, 1)
    x = r.input(r.type(), (2, 3, 11, 13))
    shape = (2, 3, (11 + 2 * pad - kh) // stride + 1, (13 + 2 * pad - kw) // stride + 1)
    window = (kh, kw, stride, stride, pad, pad, pad, pad)
    y = r.output(x.dtype, shape)
    if r.rounding == "ref-exact":
        rq = np.array([x.scale[0], y.scale[0]], np.float32)
    else:
        rq = parameters(r.rounding, x.scale[0] / y.scale[0] / np.arange(1, kh * kw + 1))
    r.node("average_pool", (x, r.constant(rq)), y, (*window, r.pick(0, 1), *r.limits(y.dtype)))
    if r.in_forms:
        r.requantized += 1
        scales = x.scale[0] / y.scale[0] / np.arange(1, kh * kw + 1)
        rq = make_rq(r.form(lambda form: make_rq(form, scales)), scales)
        r.node("average_pool", (x, r.constant(rq)), r.like(y, shape), (*window, r.pick(0, 1), *r.limits(y.dtype)))
    if r.in_forms or r.rounding != "ref-exact":
        r.requantized += 1
        point = r.constant(np.array([r.pick(x.zero_point[0], -65536, 7)], np.int32))
        r.node("average_pool", (x, point), r.output(x.dtype, shape), (*window, r.pick(0, 1), *r.limits(y.dtype)))
