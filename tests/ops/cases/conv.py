"""conv: reference cases and random nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def _conv(m: Qdq, x_shape: tuple[int, ...], w_shape: tuple[int, ...], **attrs: Any) -> tuple[str, str]:
    per_channel = attrs.pop("per_channel", True)
    kind, zero, with_bias = attrs.pop("weight", "int8"), attrs.pop("zero", False), attrs.pop("with_bias", True)
    x = m.input(x_shape)
    w = m.weight(w_shape, kind, 0 if per_channel else None, zero)
    inputs = [x, w, m.bias(x, w, w_shape[0])] if with_bias else [x, w]
    return x, m.op("Conv", inputs, **attrs)


@reference()
def conv_padded_strided(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (1, 3, 13, 11), (7, 3, 3, 5), pads=[1, 2, 0, 1], strides=[2, 1])[1], crop=0.8))


@reference()
def conv_depthwise_dilated_batch(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (3, 5, 13, 11), (5, 1, 3, 3), group=5, dilations=[2, 1], pads=[2, 1, 2, 1])[1]))


@reference()
def conv_grouped_same_lower(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (1, 6, 9, 7), (4, 3, 3, 2), group=2, auto_pad="SAME_LOWER", strides=[2, 2])[1]))


@reference()
def conv_1d(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (2, 5, 31), (3, 5, 7), pads=[3, 3], strides=[2])[1]))


@reference()
def conv_weight_zero_points(m: Qdq) -> None:
    kind = "uint8" if m.act == "uint8" else "int8"
    m.output(m.quantize(_conv(m, (1, 3, 7, 7), (5, 3, 3, 3), weight=kind, zero=True, per_channel=False)[1]))


@reference()
def conv_no_bias(m: Qdq) -> None:
    m.output(m.quantize(_conv(m, (1, 3, 7, 7), (5, 3, 1, 1), with_bias=False)[1], crop=0.6))


@reference()
def conv_float_bias(m: Qdq) -> None:
    x, w = m.input((1, 3, 7, 7)), m.weight((5, 3, 3, 3), axis=0)
    bias = m.constant("float_bias", m.rng.normal(0, 1, 5).astype(np.float32))
    m.output(m.quantize(m.op("Conv", [x, w, bias])))


@reference()
def conv_relu(m: Qdq) -> None:
    m.output(m.quantize(m.op("Relu", [_conv(m, (1, 3, 9, 9), (5, 3, 3, 3))[1]]), crop=0.7))


@reference()
def conv_clip(m: Qdq) -> None:
    low, high = m.constant("low", np.float32(-0.3)), m.constant("high", np.float32(1.1))
    m.output(m.quantize(m.op("Clip", [_conv(m, (1, 3, 9, 9), (5, 3, 3, 3))[1], low, high])))


@reference()
def two_inputs_two_outputs(m: Qdq) -> None:
    first = m.quantize(_conv(m, (1, 3, 9, 9), (5, 3, 3, 3))[1])
    second = m.quantize(m.op("Add", [first, m.input((1, 5, 7, 7))]))
    m.output(first)
    m.output(second)


@reference()
def residual_block(m: Qdq) -> None:
    first = m.quantize(m.op("Relu", [_conv(m, (1, 8, 9, 9), (8, 8, 3, 3), pads=[1] * 4)[1]]))
    w = m.weight((8, 8, 1, 1), axis=0)
    second = m.quantize(m.op("Conv", [first, w, m.bias(first, w, 8)]))
    m.output(m.quantize(m.op("Relu", [m.op("Add", [second, first])])))


@reference(integer=False)
def conv_to_float(m: Qdq) -> None:
    m.output(m.op("Relu", [_conv(m, (1, 3, 13, 11), (7, 3, 3, 5), pads=[1, 2, 0, 1], strides=[2, 1])[1]]))


@reference(integer=False)
def conv_to_float_depthwise_no_bias(m: Qdq) -> None:
    m.output(_conv(m, (2, 5, 9, 7), (10, 1, 3, 3), group=5, pads=[1] * 4, with_bias=False, per_channel=False)[1])


@reference(integer=False)
def conv_to_float_and_quantized(m: Qdq) -> None:
    """Both forms of one Conv; its weights are stored as float and quantized, its bias is float."""
    x, w = m.input((1, 3, 7, 7)), m.constant("w", m.rng.normal(0, 0.5, (5, 3, 3, 2)).astype(np.float32))
    scale = m.rng.uniform(0.003, 0.02, 5).astype(np.float32)
    made = m.op(
        "Conv", [x, m.pair(w, scale, np.zeros(5, np.int8), 0), m.constant("b", np.linspace(-1, 1, 5, dtype=np.float32))]
    )
    m.output(m.quantize(made))
    m.output(m.op("Transpose", [made], perm=[0, 2, 3, 1]))


def _depthwise(m: Qdq, outputs: int, bias: str) -> str:
    """A Conv whose input has a scale for each channel, as NNCF writes it."""
    m.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 5, 9, 7)))
    m.feed["x"] = m.rng.uniform(-2, 3, (2, 5, 9, 7)).astype(np.float32)
    limits, scale = np.iinfo(m.act), m.rng.uniform(2.5, 3.5, 5)
    zero = np.zeros(5) if m.symmetric else limits.min + m.rng.uniform(0.3, 0.6, 5) * (limits.max - limits.min)
    x = m.pair("x", (scale * 2 / (limits.max - limits.min)).astype(np.float32), zero.astype(m.act), 1)
    more = [m.constant(bias, m.rng.normal(0, 1, outputs).astype(np.float32))] if bias else []
    return m.op("Conv", [x, m.weight((outputs, 1, 3, 3), axis=0), *more], group=5, pads=[1, 0, 1, 1])


@reference(integer=False)
def conv_depthwise_input_per_channel(m: Qdq) -> None:
    m.output(m.quantize(m.op("Relu", [_depthwise(m, 5, "b")]), crop=0.8))


@reference(integer=False)
def conv_depthwise_input_per_channel_to_float(m: Qdq) -> None:
    m.output(_depthwise(m, 10, ""))


def convolution(r: RandomNodes, transposed: bool = False, wide: bool = False, floats: bool = False) -> None:
    """A conv or conv_transpose of random kind, window and types. wide: 16 bits. floats: the output is float32."""
    rng, kind = r.rng, r.pick(0, 1, 2, 3)  # plain, pointwise, depthwise, grouped
    group = (1, 1, r.pick(5, 17), 2)[kind]
    per_in, per_out = (1 if kind == 2 else r.pick(1, 3, 8), 1 if kind == 2 else r.pick(1, 5, 7))
    kh, kw = (1, 1) if kind == 1 else (r.pick(1, 2, 3), r.pick(1, 3, 5)) if rng.random() < 0.5 else (3, 3)
    sh, sw, dh, dw = r.pick(1, 2, 3), r.pick(1, 2, 3), r.pick(1, 1, 2), r.pick(1, 1, 3)
    dw = 1 if kw == 5 else dw  # the window fits the smallest input
    pads = [r.pick(0, 1, 2) for _ in range(4)]
    if kind == 1 and rng.random() < 0.6:
        sh, sw, pads = 1, 1, [0] * 4
    h, w, out = r.pick(7, 11, 13), r.pick(7, 9, 19), group * per_out
    by_channel = (group, 1) if kind == 2 and not transposed and rng.random() < 0.5 else (1, -1)
    x = r.input(r.type("uint16", "int16") if wide else r.type(), (2, group * per_in, h, w), *by_channel)
    shape = (group * per_in, per_out, kh, kw) if transposed else (out, per_in, kh, kw)
    per_channel = not transposed and bool(r.pick(0, 1))
    if transposed and rng.random() < 0.5:  # one for each output channel of a group
        weight = r.weights(r.type(), shape, per_out, 1)
        per_channel = per_out > 1
    else:
        weight = r.weights(r.type(), shape, out if per_channel else 1)
    bias = r.constant(rng.integers(-9000, 9000, out).astype(np.int64 if wide else np.int32))
    reach_h, reach_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    if transposed:
        size = ((h - 1) * sh + reach_h - pads[0] - pads[2], (w - 1) * sw + reach_w - pads[1] - pads[3])
    else:
        size = ((h + pads[0] + pads[2] - reach_h) // sh + 1, (w + pads[1] + pads[3] - reach_w) // sw + 1)
    if floats:
        y, rq, limits = r.float_output((2, out, *size)), r.real_scales(out if per_channel else 1), (0, 0)
        bias = r.float_bias(out) if rng.random() < 0.6 else bias
    else:
        y = r.output(x.dtype if wide else r.type(), (2, out, *size))
        rq, limits = r.rq(per_in * kh * kw, out if per_channel else 1, wide, not transposed), r.limits(y.dtype)
    words = (kh, kw, sh, sw, *pads, dh, dw, group, *limits)
    inputs = (x, weight, bias if rng.random() < 0.7 else None, rq)
    r.node("conv_transpose" if transposed else "conv", inputs, y, words)


def random_nodes(r: RandomNodes) -> None:
    convolution(r)
    convolution(r)
    convolution(r, wide=True)
    convolution(r, floats=True)
    convolution(r, wide=True, floats=True)
