"""Windows with other strides, paddings and dilations along rows than along columns; see asymmetric_nodes.py."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.ops.random_nodes import RandomNodes, Shape

Pads = tuple[int, int, int, int]  # top, left, bottom, right
Pair = tuple[int, int]
ONE: Pair = (1, 1)


def size_of(shape: Shape, kernel: Pair, stride: Pair, pads: Pads, dilation: Pair = ONE) -> Shape:
    """Returns the rows and columns of a window's output; (columns,) for a tensor of three dims."""
    sides = zip(shape[2:], (0, 1), strict=True) if len(shape) == 4 else ((shape[2], 1),)
    return tuple(
        (size + pads[side] + pads[side + 2] - (kernel[side] - 1) * dilation[side] - 1) // stride[side] + 1
        for size, side in sides
    )


def conv(r: RandomNodes) -> None:
    """In two groups, along one axis, of every channel by itself, and with an output of the input's shape."""
    for shape, kernel, stride, pads, dilation, group, channels in (
        ((2, 4, 8, 10), (3, 2), (1, 1), (2, 0, 1, 1), (1, 2), 2, 4),
        ((1, 3, 23), (1, 5), (1, 2), (0, 3, 0, 1), (1, 1), 1, 4),
        ((1, 5, 9, 12), (2, 3), (2, 3), (1, 2, 0, 1), (2, 1), 5, 5),
        ((1, 3, 5, 6), (3, 2), (1, 1), (1, 0, 1, 1), (1, 1), 1, 3),
    ):
        x = r.input(r.type(), shape)
        size = size_of(shape, kernel, stride, pads, dilation)
        weight = r.weights("int8", (channels, shape[1] // group, *kernel), channels)
        bias = r.constant(r.rng.integers(-900, 900, channels).astype(np.int32))
        y = r.output(x.dtype if (channels, *size) == shape[1:] else r.type(), (shape[0], channels, *size))
        scales = r.rq(prod(kernel) * shape[1] // group, channels)
        words = (*kernel, *stride, *pads, *dilation, group, *r.limits(y.dtype))
        r.node("conv", (x, weight, bias, scales), y, words)


def conv_transpose(r: RandomNodes) -> None:
    """In two groups; the windows overlap along columns and leave gaps along rows."""
    shape, kernel, stride, pads, dilation = (1, 4, 4, 5), (2, 3), (3, 2), (0, 2, 1, 1), (1, 2)
    size = tuple(
        (shape[2 + side] - 1) * stride[side] + (kernel[side] - 1) * dilation[side] + 1 - pads[side] - pads[side + 2]
        for side in (0, 1)
    )
    x, weight = r.input(r.type(), shape), r.weights("int8", (4, 3, *kernel), 1)
    bias = r.constant(r.rng.integers(-900, 900, 6).astype(np.int32))
    y = r.output(r.type(), (1, 6, *size))
    words = (*kernel, *stride, *pads, *dilation, 2, *r.limits(y.dtype))
    r.node("conv_transpose", (x, weight, bias, r.rq(12, 1, single=False)), y, words)
    floats, weights = r.floats(shape), r.constant(r.rng.normal(0, 1, (4, 3, *kernel)).astype(np.float32))
    r.node("conv_transpose_float", (floats, weights, r.floats((6,))), r.float_output((1, 6, *size)), words[:11])


def conv_float(r: RandomNodes) -> None:
    """One of floats, and one of integers with zero points."""
    shape, kernel, stride, pads, dilation = (2, 4, 9, 8), (3, 2), (1, 2), (2, 0, 1, 1), (1, 2)
    size = size_of(shape, kernel, stride, pads, dilation)
    words = (*kernel, *stride, *pads, *dilation, 2)
    weight = r.constant(r.rng.normal(0, 1, (6, 2, *kernel)).astype(np.float32))
    r.node("conv_float", (r.floats(shape), weight, r.floats((6,))), r.float_output((2, 6, *size)), words)
    x, w = r.plain(r.rng.integers(0, 256, shape).astype(np.uint8)), r.rng.integers(-128, 128, (6, 2, *kernel))
    zeros = r.constant(np.array([131], np.uint8)), r.constant(r.rng.integers(-20, 20, 6).astype(np.int8))
    inputs = (x, r.constant(w.astype(np.int8)), *zeros)
    r.node("conv_integer", inputs, r.plain_output("int32", (2, 6, *size)), words)


def average_pool(r: RandomNodes) -> None:
    """Windows with one valid element in the corners, all taps counted and only the valid ones."""
    for shape, kernel, stride, pads in (
        ((2, 3, 7, 10), (2, 3), (1, 2), (1, 2, 1, 0)),
        ((1, 5, 17), (1, 4), (1, 3), (0, 3, 0, 2)),
    ):
        for included in (0, 1):
            x = r.input(r.type(), shape)
            y = r.output(x.dtype, (*shape[:2], *size_of(shape, kernel, stride, pads)))
            scales = r.constant(np.array([x.scale[0], 1.3 * x.scale[0]], np.float32))
            r.node("average_pool", (x, scales), y, (*kernel, *stride, *pads, included, *r.limits(y.dtype)))


def average_pool_float(r: RandomNodes) -> None:
    shape, kernel, stride, pads, dilation = (2, 3, 7, 10), (2, 3), (1, 2), (1, 3, 1, 0), (2, 1)
    for included in (0, 1):
        y = r.float_output((*shape[:2], *size_of(shape, kernel, stride, pads, dilation)))
        r.node("average_pool_float", (r.floats(shape),), y, (*kernel, *stride, *pads, *dilation, included))


def max_pool(r: RandomNodes) -> None:
    for shape, kernel, stride, pads, dilation in (
        ((2, 3, 8, 11), (2, 3), (1, 2), (1, 2, 0, 1), (2, 1)),
        ((1, 5, 19), (1, 3), (1, 2), (0, 1, 0, 2), (1, 2)),
        ((2, 3, 5, 7), (3, 2), (1, 1), (1, 0, 1, 1), (1, 1)),
    ):
        x = r.input(r.type(), shape)
        y = r.like(x, (*shape[:2], *size_of(shape, kernel, stride, pads, dilation)))
        r.node("max_pool", (x,), y, (*kernel, *stride, *pads, *dilation))
