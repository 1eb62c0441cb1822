"""conv_float: reference cases and random nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def floats(m: Qdq, shape: tuple[int, ...], spread: float = 1.0) -> str:
    """A float32 constant of normal values."""
    return m.constant(f"f{len(m.constants)}", m.rng.normal(0, spread, shape).astype(np.float32))


def _conv(m: Qdq, x_shape: tuple[int, ...], w_shape: tuple[int, ...], **attrs: Any) -> str:
    return m.op("Conv", [m.input(x_shape), floats(m, w_shape), floats(m, w_shape[:1])], **attrs)


@reference(integer=False)
def conv_of_float_weights(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (2, 3, 13, 11), (7, 3, 3, 5), pads=[1, 2, 0, 1], strides=[2, 1])))


@reference(integer=False)
def conv_between_float_functions(m: Qdq) -> None:
    x = m.op("Sigmoid", [m.input((1, 5, 9, 7))])
    y = m.op("Conv", [x, m.weight((6, 5, 3, 2), axis=0)], auto_pad="SAME_UPPER")
    m.output(m.op("Tanh", [y]))


@reference(integer=False)
def conv_depthwise_and_grouped_floats(m: Qdq) -> None:
    x = _conv(m, (1, 6, 9, 11), (12, 1, 3, 3), group=6, dilations=[2, 1], pads=[2, 1, 2, 1])
    m.output(m.quantize(m.op("Conv", [x, floats(m, (4, 6, 1, 1))], group=2, strides=[1, 2])))


@reference(integer=False)
def conv_1d_of_floats(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (2, 5, 31), (3, 5, 7), pads=[3, 3], strides=[2])))


def values(r: RandomNodes, shape: tuple[int, ...]) -> NDArray[Any]:
    """Floats of one size or of all sizes; a quarter of them negated copies, so that exact sums cancel."""
    flat = r.rng.normal(0, 1, int(np.prod(shape)))
    if r.rng.random() < 0.3:
        flat = flat * 2.0 ** r.rng.integers(-60, 60, flat.size)
    if r.rng.random() < 0.3:
        flat = np.rint(flat * 2)
    fourth = flat.size // 4
    flat[:fourth] = -flat[fourth : 2 * fourth]
    return flat.astype(np.float32).reshape(shape)


def convolution(r: RandomNodes, transposed: bool = False) -> None:
    """A conv_float or conv_transpose_float of random kind, window and values."""
    kind = r.pick(0, 1, 2, 3)  # plain, pointwise, depthwise, grouped
    group = (1, 1, r.pick(5, 17), 2)[kind]
    per_in, per_out = (1 if kind == 2 else r.pick(1, 3, 8), r.pick(1, 2) if kind == 2 else r.pick(1, 5, 7))
    kh, kw = (1, 1) if kind == 1 else (r.pick(1, 2, 3), r.pick(1, 3, 5))
    sh, sw, dh, dw = r.pick(1, 2, 3), r.pick(1, 2, 3), r.pick(1, 1, 2), 1 if kw == 5 else r.pick(1, 1, 3)
    pads = [r.pick(0, 1, 2) if kind != 1 or not transposed else 0 for _ in range(4)]
    h, w, out = r.pick(7, 11, 13), r.pick(7, 9, 41), group * per_out
    x = r.plain(values(r, (2, group * per_in, h, w)))
    weight = values(r, (group * per_in, per_out, kh, kw) if transposed else (out, per_in, kh, kw))
    bias = r.plain(values(r, (out,))) if r.pick(0, 1) else None
    reach_h, reach_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    if transposed:
        size = ((h - 1) * sh + reach_h - pads[0] - pads[2], (w - 1) * sw + reach_w - pads[1] - pads[3])
    else:
        size = ((h + pads[0] + pads[2] - reach_h) // sh + 1, (w + pads[1] + pads[3] - reach_w) // sw + 1)
    inputs = (x, r.constant(weight) if transposed or r.pick(0, 1) else r.plain(weight), bias)
    words = (kh, kw, sh, sw, *pads, dh, dw, group)
    r.node("conv_transpose_float" if transposed else "conv_float", inputs, r.float_output((2, out, *size)), words)


def random_nodes(r: RandomNodes) -> None:
    convolution(r)
    convolution(r)
    x = values(r, (1, 2, 5, 7))
    x[0, 0, 2, 3], x[0, 1, 0, 0], x[0, 1, 4, 6] = np.nan, np.inf, -np.inf
    words = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    r.node("conv_float", (r.plain(x), r.plain(values(r, (3, 2, 3, 3))), None), r.float_output((1, 3, 5, 7)), words)
