"""conv_integer: reference cases and random nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.cases.matmul_integer import dynamic, integers, scaled, whole, zero_of
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def _conv(m: Qdq, x_shape: tuple[int, ...], w_shape: tuple[int, ...], dtype: str = "uint8", **attrs: Any) -> None:
    x = dynamic(m, x_shape)
    zero = m.constant("z", np.array(113, dtype))
    scaled(m, m.op("ConvInteger", [x, integers(m, w_shape, dtype), f"{x}_2", zero], **attrs), x, np.array(0.01))


@reference(integer=False)
def dynamic_conv(m: Qdq) -> None:
    _conv(m, (2, 3, 13, 11), (7, 3, 3, 5), pads=[1, 2, 0, 1], strides=[2, 1])


@reference(integer=False)
def dynamic_conv_depthwise(m: Qdq) -> None:
    _conv(m, (1, 6, 9, 11), (12, 1, 3, 3), group=6, dilations=[2, 1], pads=[2, 1, 2, 1])


@reference(integer=False)
def dynamic_conv_grouped_same(m: Qdq) -> None:
    _conv(m, (1, 6, 9, 10), (4, 3, 3, 2), group=2, auto_pad="SAME_UPPER", strides=[1, 2])


@reference(integer=False)
def dynamic_conv_1d(m: Qdq) -> None:
    _conv(m, (2, 5, 31), (3, 5, 7), pads=[3, 3], strides=[2])


@reference(integer=False)
def integer_conv_without_zero_points(m: Qdq) -> None:
    x = dynamic(m, (1, 3, 5, 7))
    m.output(m.op("ConvInteger", [x, integers(m, (2, 3, 3, 3), "uint8")], pads=[1, 1, 1, 1]))


def random_nodes(r: RandomNodes) -> None:
    for _ in range(3):
        group = r.pick(1, 1, 2, 5)
        per_in, out = r.pick(1, 3, 8), group * r.pick(1, 2, 5)
        kh, kw = r.pick(1, 2, 3), r.pick(1, 3, 5)
        sh, sw, dh, dw = r.pick(1, 2, 3), r.pick(1, 2, 3), r.pick(1, 1, 2), 1 if kw == 5 else r.pick(1, 1, 3)
        pads = [r.pick(0, 1, 2, 6) for _ in range(4)]
        h, w = r.pick(7, 11, 13), r.pick(7, 9, 41)
        size = (
            (h + pads[0] + pads[2] - (kh - 1) * dh - 1) // sh + 1,
            (w + pads[1] + pads[3] - (kw - 1) * dw - 1) // sw + 1,
        )
        x, k = whole(r, (2, group * per_in, h, w)), whole(r, (out, per_in, kh, kw), bool(r.pick(0, 1)))
        inputs = (x, k, zero_of(r, x), zero_of(r, k, r.pick(0, out)))
        words = (kh, kw, sh, sw, *pads, dh, dw, group)
        r.node("conv_integer", inputs, r.plain_output("int32", (2, out, *size)), words)
    x, k = whole(r, (1, 2, 17)), whole(r, (3, 2, 1, 5))
    words = (1, 5, 1, 1, 0, 2, 0, 2, 1, 1, 1)
    r.node("conv_integer", (x, k, zero_of(r, x), zero_of(r, k)), r.plain_output("int32", (1, 3, 17)), words)
