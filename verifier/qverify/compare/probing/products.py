"""Probes of ops that sum products: convolutions, fully connected, matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.compare.probing.draws import (
    EDGES,
    EXACT,
    GENERAL,
    NEAR,
    SIGMA,
    TIES,
    draw_codes,
    draw_operand,
    draw_scale,
    draw_zero,
    has_ties,
    near_scale,
    power_of_two,
    random_of,
    tied_scales,
)
from qverify.tensors.one_op import Array, OneOp, Operand


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a probe. x: of the input. w: of the weights. axis: axis of the weights' output channels. terms:
    products of a sum. words: further words of its name."""

    op: str
    kind: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    axis: int
    terms: int
    words: str
    attributes: dict[str, Any] = field(default_factory=dict)


def _conv(words: str, x: tuple[int, ...], w: tuple[int, ...], **more: Any) -> Shape:
    return Shape("conv", "Conv", x, w, 0, prod(w[1:]), words, more)


# Sizes that are whole vectors, and sizes with rests: channels, rows and columns
ODD, WHOLE = "odd sizes", "whole sizes"
CONVS = (
    _conv("conv 1x1", (1, 5, 9, 11), (7, 5, 1, 1)),
    _conv("conv 1x1 whole", (1, 16, 8, 8), (16, 16, 1, 1)),
    _conv("conv 3x3", (1, 3, 11, 9), (13, 3, 3, 3), pads=[1] * 4),
    _conv("conv 3x3 stride 2", (1, 8, 9, 9), (8, 8, 3, 3), pads=[1] * 4, strides=[2, 2]),
    _conv("depthwise", (1, 11, 9, 13), (11, 1, 3, 3), pads=[1] * 4, group=11),
    _conv("depthwise whole", (1, 16, 8, 8), (16, 1, 3, 3), pads=[1] * 4, group=16),
    _conv("depthwise stride 2", (1, 11, 9, 13), (11, 1, 3, 3), pads=[1] * 4, group=11, strides=[2, 2]),
)
TRANSPOSED = (
    Shape("conv_transpose", "ConvTranspose", (1, 5, 6, 7), (5, 7, 3, 3), 1, 45, "transposed 3x3",
          {"pads": [1] * 4}),
    Shape("conv_transpose", "ConvTranspose", (1, 8, 4, 4), (8, 8, 2, 2), 1, 8, "transposed 2x2 whole",
          {"strides": [2, 2]}),
)  # fmt: skip
ONE_TERM = {  # one product for each output, so that a sum is an input and a bias
    "conv": Shape("conv", "Conv", (1, 1, 8, 8), (48, 1, 1, 1), 0, 1, "conv of one term"),
    "conv_transpose": Shape("conv_transpose", "ConvTranspose", (1, 1, 8, 8), (1, 48, 1, 1), 1, 1, "transposed, one term"),
    "fully_connected": Shape(
        "fully_connected", "Gemm", (64, 1), (48, 1), 0, 1, "dense of one term", {"transB": 1}
    ),
}  # fmt: skip
DENSE = (
    Shape("fully_connected", "Gemm", (3, 37), (19, 37), 0, 37, "dense", {"transB": 1}),
    Shape("fully_connected", "Gemm", (4, 64), (32, 64), 0, 64, "dense whole", {"transB": 1}),
)
SHAPES = {"conv": CONVS, "conv_transpose": TRANSPOSED, "fully_connected": DENSE}


def draw_products(op: str, dtype: str) -> Iterator[OneOp]:
    """Yields the first probes of an op with constant weights."""
    for number, shape in enumerate(SHAPES[op]):
        per_channel = number % 2 == 1 or "depthwise" in shape.words
        for kind in (GENERAL, TIES):
            yield draw_product(shape, dtype, kind, per_channel)
    yield draw_product(SHAPES[op][0], dtype, EDGES, True)
    yield draw_near_ties(op, dtype)
    yield draw_exact_ties(op, dtype)


def draw_product(shape: Shape, dtype: str, kind: str, per_channel: bool, turn: int = 0) -> OneOp:
    """Returns a probe of this shape."""
    name = f"{shape.words}, {kind}, {'per channel' if per_channel else 'one scale'}, {dtype}"
    name += f", draw {turn}" if turn else ""
    random = random_of(name)
    x = draw_operand(random, shape.x, dtype, kind)
    channels = shape.w[shape.axis] * (shape.attributes.get("group", 1) if shape.axis else 1)
    count = channels if per_channel else 1
    most = {GENERAL: 127, TIES: 3, EDGES: 3}[kind]
    deviation = np.sqrt(shape.terms) * SIGMA * most * 0.58
    ratio = 60.0 / deviation * functions64.exp2(random.uniform(-2.0, 1.0, count))
    if kind == EDGES:
        ratio = functions64.exp2(-random.uniform(7.0, 21.0, count))
    y_scale = draw_scale(random, 0.02, 0.1, kind)
    w_scale = ratio * float(y_scale) / float(x.scale)
    w_scale = np.asarray(power_of_two(w_scale) if kind == TIES else w_scale, np.float32)
    codes = random.integers(-most, most + 1, shape.w).astype(np.int8)
    reach = 20.0 if kind != EDGES else 150.0  # of the bias, in steps of the output
    wanted = random.uniform(-reach, reach, channels) / np.broadcast_to(ratio, channels)
    if kind == TIES:
        wanted = np.rint(wanted)
    bias = np.clip(np.rint(wanted), -(2**30), 2**30).astype(np.int32)
    weight = Operand(codes, w_scale if per_channel else w_scale[0], 0, shape.axis)
    zero = draw_zero(random, dtype, kind)
    return OneOp(shape.op, name, shape.kind, (x,), float(y_scale), zero, dtype, weight, bias, shape.attributes)


def draw_near_ties(op: str, dtype: str, turn: int = 0) -> OneOp:
    """Returns a probe whose sums are sweeps around one that lies as near to a tie as float32 scales allow, in each
    channel another size of the sum and of the scale."""
    shape = ONE_TERM[op]
    name = f"{shape.words}, near ties, {dtype}" + (f", draw {turn}" if turn else "")
    random = random_of(name)
    zero = draw_zero(random, dtype, GENERAL)
    codes = (np.arange(64).reshape(shape.x) * 2 + (64 if dtype == "uint8" else -64)).astype(dtype)
    x = Operand(codes, draw_scale(random, 0.01, 0.08, GENERAL), zero)
    channels = shape.w[shape.axis]
    middle = functions64.exp2(random.uniform(5.0, 27.0, channels)) * random.choice([-1, 1], channels)
    sums = np.rint(middle).astype(np.int64)  # each the sum that is near a tie
    steps = np.rint(random.uniform(1.0, 100.0, channels)) + 0.5
    y_scale = draw_scale(random, 0.02, 0.1, GENERAL)
    w_scale = (steps / np.abs(sums) * float(y_scale) / float(x.scale)).astype(np.float32)
    at = codes.reshape(-1)[random.integers(0, 64, channels)].astype(np.int64) - zero
    weight = Operand(np.ones(shape.w, np.int8), w_scale, 0, shape.axis)
    y_zero = draw_zero(random, dtype, GENERAL)
    bias = (sums - at).astype(np.int32)
    return OneOp(op, name, shape.kind, (x,), float(y_scale), y_zero, dtype, weight, bias, shape.attributes)


def draw_exact_ties(op: str, dtype: str, turn: int = 0) -> OneOp:
    """Returns a probe like that of draw_near_ties whose sums pass an exact tie in each channel, of a scale that is no power
    of two: odd / (2 * number) times a power of two."""
    shape = ONE_TERM[op]
    name = f"{shape.words}, {EXACT}, {dtype}" + (f", draw {turn}" if turn else "")
    random = random_of(name)
    zero = draw_zero(random, dtype, GENERAL)
    codes = (np.arange(64).reshape(shape.x) * 2 + (64 if dtype == "uint8" else -64)).astype(dtype)
    x = Operand(codes, draw_scale(random, 0.01, 0.08, TIES), zero)
    channels = shape.w[shape.axis]
    number = 2 * int(random.integers(150, 500)) + 1
    odd = random.choice([n for n in range(1, 201, 2) if has_ties(n, 2 * number)], channels)
    exponent = random.integers(0, 17, channels)
    sums = number * (np.int64(1) << exponent) * random.choice([-1, 1], channels)
    y_scale = 2.0 * number * float(power_of_two(0.05 / (2 * number)))
    w_scale = (odd * functions64.exp2(-exponent.astype(float)) * (y_scale / (2 * number) / float(x.scale))).astype(
        np.float32
    )
    at = codes.reshape(-1)[random.integers(0, 64, channels)].astype(np.int64) - zero
    weight = Operand(np.ones(shape.w, np.int8), w_scale, 0, shape.axis)
    bias, y_zero = (sums - at).astype(np.int32), draw_zero(random, dtype, GENERAL)
    return OneOp(op, name, shape.kind, (x,), y_scale, y_zero, dtype, weight, bias, shape.attributes)


def draw_matmuls(dtype: str, turn: int = 0) -> Iterator[OneOp]:
    """Yields probes of the product of two matrices that are not constant."""
    for words, a_shape, b_shape in (
        ("matmul", (1, 2, 7, 19), (1, 2, 19, 13)),
        ("matmul whole", (1, 1, 8, 32), (1, 1, 32, 16)),
    ):
        for kind in (GENERAL, TIES, NEAR):
            name = f"{words}, {kind}, {dtype}" + (f", draw {turn}" if turn else "")
            random = random_of(name)
            a, b = draw_operand(random, a_shape, dtype, kind), draw_operand(random, b_shape, dtype, kind)
            if kind == TIES:
                b = Operand(_small(random, b_shape, dtype, b.zero), b.scale, b.zero)
            spread = np.sqrt(a_shape[-1]) * SIGMA * (2.0 if kind == TIES else SIGMA)
            scale = float(a.scale) * float(b.scale) * spread / 60.0 * functions64.exp2(random.uniform(-1, 1))
            scale = float(np.float32(power_of_two(scale) if kind == TIES else scale))
            if kind == NEAR:
                one = float(a.scale) * float(b.scale)  # a sum of 1
                scale = near_scale(random, one * np.rint(scale / one), 5)
            yield OneOp("matmul", name, "MatMul", (a, b), scale, draw_zero(random, dtype, kind), dtype)
    name = f"matmul of one term, {EXACT}, {dtype}" + (f", draw {turn}" if turn else "")
    random = random_of(name)
    a, b = (draw_operand(random, s, dtype, EXACT) for s in ((1, 1, 48, 1), (1, 1, 1, 40)))
    first, scale = tied_scales(random, float(a.scale), 9, 60.0)
    second = np.asarray(power_of_two(b.scale), np.float32)
    a, b = Operand(a.codes, first, a.zero), Operand(b.codes, second, b.zero)
    zero = draw_zero(random, dtype, EXACT)
    yield OneOp("matmul", name, "MatMul", (a, b), scale * float(second), zero, dtype)


def _small(random: np.random.Generator, shape: tuple[int, ...], dtype: str, zero: int) -> Array:
    """Returns integers within 3 of the zero point."""
    codes = draw_codes(random, shape, dtype).astype(np.int64)
    return (codes % 7 - 3 + zero).astype(dtype)
