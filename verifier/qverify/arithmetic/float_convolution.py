"""Convolution and transposed convolution of floats in float64, summed in any order, and the terms of single
elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from qverify.arithmetic.float32 import Array
from qverify.arithmetic.planes import Planes, planes_of
from qverify.arithmetic.windows import Window, find_landing_slices
from qverify.arithmetic.workers import run_blocks, split_range

BLOCK = 1 << 20  # elements of a block's operands, which stay in a cache
DOUBLE = np.dtype(np.float64)


def convolve(x: Array, w: Array, window: Window, group: int, out: tuple[int, int]) -> Array:
    """Returns the sums [N, O, *out], float64, of x [N, I, H, W] and w [O, I/group, kh, kw]; a padded element is 0."""
    weight = w.reshape(group, len(w) // group, -1).astype(DOUBLE)
    y = np.empty((len(x), len(w), *out))
    one_channel = w.shape[1] == 1 and group > 1
    for image, result in zip(x, y, strict=True):
        planes = planes_of(image, window, out, 0, DOUBLE)
        run_blocks((_convolve_tap_by_tap if one_channel else _convolve_by_products)(planes, weight, result))
    return y


def _convolve_tap_by_tap(planes: Planes, weight: Array, y: Array) -> list[Callable[[], None]]:
    """Computes groups of one input channel: a sum over taps, each a contiguous multiply-add over whole planes."""
    group, per_group, taps = weight.shape
    rows, width = y.shape[1], planes.width

    def block(channels: slice) -> None:
        acc = np.zeros((channels.stop - channels.start, per_group, rows * width))
        for k in range(taps):
            acc += planes.tap(k, channels, 0, rows)[:, None] * weight[channels, :, k, None]
        part = y[channels.start * per_group : channels.stop * per_group]
        part[...] = _cut(acc, part)

    return [partial(block, run) for run in split_range(group, BLOCK // 16 // (rows * width * per_group))]


def _convolve_by_products(planes: Planes, weight: Array, y: Array) -> list[Callable[[], None]]:
    """Computes one matrix product for each group and run of rows whose patches fit the cache."""
    group, per_group, depth = weight.shape
    channels = len(planes.flat) // group

    def block(g: int, rows: slice) -> None:
        patch = planes.columns(slice(g * channels, (g + 1) * channels), rows.start, rows.stop - rows.start)
        strip = y[g * per_group : (g + 1) * per_group, rows]
        strip[...] = _cut(weight[g] @ patch, strip)

    strips = split_range(y.shape[1], BLOCK // (depth * planes.width))
    return [partial(block, g, rows) for g in range(group) for rows in strips]


def _cut(acc: Array, y: Array) -> Array:
    """Returns sums of whole rows of the planes without what lies beyond the output's width."""
    return acc.reshape(len(y), y.shape[1], -1)[:, :, : y.shape[2]]


def convolve_transposed(x: Array, w: Array, window: Window, group: int, out: tuple[int, int]) -> Array:
    """Returns the sums [N, O, *out], float64, of x [N, I, H, W] and w [I, O/group, kh, kw], scattered to input * stride
    - pad + tap * dilation."""
    per_in, per_out = len(w) // group, w.shape[1]
    y = np.empty((len(x), group * per_out, *out))

    def block(image: int, g: int, part: slice) -> None:
        inputs = slice(g * per_in, (g + 1) * per_in)
        outputs = slice(g * per_out + part.start, g * per_out + part.stop)
        y[image, outputs] = _scatter(x[image, inputs].astype(DOUBLE), w[inputs, part].astype(DOUBLE), window, out)

    parts = split_range(per_out, BLOCK // (x[0, 0].size * max(1, int(np.prod(window.stride)))))
    run_blocks([partial(block, i, g, part) for i in range(len(x)) for g in range(group) for part in parts])
    return y


def _scatter(x: Array, w: Array, window: Window, out: tuple[int, int]) -> Array:
    acc = np.zeros((w.shape[1], *out))
    (top, left), (stride_h, stride_w) = window.pad[:2], window.stride
    for i in range(window.kernel[0]):
        rows, source_rows = find_landing_slices(i * window.dilation[0] - top, stride_h, x.shape[1], out[0])
        for j in range(window.kernel[1]):
            columns, source_columns = find_landing_slices(j * window.dilation[1] - left, stride_w, x.shape[2], out[1])
            near = x[:, source_rows, source_columns]
            acc[:, rows, columns] += (w[:, :, i, j].T @ near.reshape(len(x), -1)).reshape(w.shape[1], *near.shape[1:])
    return acc


def list_terms(x: Array, w: Array, window: Window, group: int, shape: tuple[int, ...], at: Array) -> Array:
    """Returns the products [E, I/group * kh * kw], float64, whose sums are the elements of `convolve` at these flat
    positions of its shape."""
    image, channel, row, column = np.unravel_index(at, shape)
    each, near, inside = w.shape[1], [], []
    reads = (channel // (len(w) // group) * each)[:, None] + np.arange(each)
    for axis, where in ((0, row), (1, column)):
        steps = np.arange(window.kernel[axis]) * window.dilation[axis] - window.pad[axis]
        place = (where * window.stride[axis])[:, None] + steps
        near.append(np.clip(place, 0, x.shape[2 + axis] - 1))
        inside.append(near[axis] == place)
    patch = x[image[:, None, None, None], reads[:, :, None, None], near[0][:, None, :, None], near[1][:, None, None]]
    patch = np.where(inside[0][:, None, :, None] & inside[1][:, None, None], patch, 0)
    return (patch.astype(DOUBLE) * w[channel].astype(DOUBLE)).reshape(len(at), -1)


def list_transposed_terms(x: Array, w: Array, window: Window, group: int, shape: tuple[int, ...], at: Array) -> Array:
    """Returns the same of `convolve_transposed`; 0 for a tap that no input element reaches."""
    image, channel, row, column = np.unravel_index(at, shape)
    sources = [
        _find_sources(where, window.pad[i], window.stride[i], window.dilation[i], window.kernel[i], x.shape[2 + i])
        for i, where in ((0, row), (1, column))
    ]
    (rows, some_rows), (columns, some_columns) = sources
    each = len(w) // group
    reads = (channel // w.shape[1] * each)[:, None] + np.arange(each)
    patch = x[image[:, None, None, None], reads[:, :, None, None], rows[:, None, :, None], columns[:, None, None]]
    inside = some_rows[:, None, :, None] & some_columns[:, None, None]
    taken = w[reads, (channel % w.shape[1])[:, None]]
    return np.where(inside, patch.astype(DOUBLE) * taken.astype(DOUBLE), 0.0).reshape(len(at), -1)


def _find_sources(where: Array, pad: int, stride: int, dilation: int, kernel: int, size: int) -> tuple[Array, Array]:
    """Returns, as [E, kernel], the input that each tap of an output reads, and whether there is one."""
    far = where[:, None] + pad - np.arange(kernel) * dilation
    index = far // stride
    return np.clip(index, 0, size - 1), (far % stride == 0) & (index >= 0) & (index < size)
