"""acc[n,o, i*stride - pad + k*dilation] += (x-zx)(w-zw); y = clip(requantize(acc + b, S) + zy)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import centred, narrow_type
from qverify.arithmetic.linear import Requantization, along_axis, apply_to_rows
from qverify.arithmetic.windows import as_planes, find_landing_slices, plane_shape
from qverify.arithmetic.workers import run_blocks, split_range
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import choose_exact_dtype, read_requantization, whole_bias
from qverify.ops.conv import WORDS as WORDS

Array = npt.NDArray[Any]
CONV_BLOCK = 1 << 18  # products of a block that stay in a second-level cache
MAX_PRODUCTS = 1 << 21  # products that are computed at once; if one output channel has more, its taps are divided


@dataclass(frozen=True, slots=True)
class PreparedConvTranspose:
    """The prepared constants of a conv_transpose node.

    Attributes:
        weight: centred weights, [group, O/group, kh * kw, I/group], in a type in which all sums are exact.
        bias: [O], or None.
        requantization: the requantization of the sums.
    """

    weight: Array
    bias: Array | None
    requantization: Requantization


def prepare(node: Node, graph: Graph) -> PreparedConvTranspose:
    w = graph.spec(node.inputs[1] or "")
    stored = centred(graph.constants[w.name], along_axis(w.zero_point, 4, w.channel_axis), narrow_type(w.dtype))
    group, per_out = node.words[10], w.shape[1]
    of_group = stored.reshape(group, w.shape[0] // group, per_out, -1).transpose(0, 2, 3, 1)
    bias = whole_bias(node, graph, group * per_out)
    dtype = choose_exact_dtype(node, graph, of_group.reshape(group * per_out, -1), bias)
    return PreparedConvTranspose(
        np.ascontiguousarray(of_group.astype(dtype)),
        None if bias is None else bias.astype(dtype),
        read_requantization(node, graph, axis=0),
    )


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: PreparedConvTranspose) -> tuple[Array, ...]:
    spec, zero = graph.spec(node.outputs[0]), graph.spec(node.inputs[0] or "").zero_point[0]
    assert inputs[0] is not None
    x = np.subtract(as_planes(inputs[0]), zero, dtype=state.weight.dtype, casting="unsafe")
    group, per_out, _, per_in = state.weight.shape
    out = plane_shape(spec.shape)
    y, tiles = np.empty((len(x), group * per_out, *out), spec.dtype), _is_tiled(node, x.shape[2:], out)

    def block(image: int, g: int, part: slice) -> None:
        outputs = slice(g * per_out + part.start, g * per_out + part.stop)
        read, weight = x[image, g * per_in : (g + 1) * per_in], state.weight[g, part]
        acc = (weight.reshape(-1, per_in) @ read.reshape(per_in, -1)) if tiles else _scatter(node, read, weight, out)
        acc = acc.reshape(len(weight), -1)
        if state.bias is not None:
            apply_to_rows(np.add, acc, state.bias[outputs, None])
        values = state.requantization.select(outputs).apply(acc)
        if tiles:
            _lay_tiles(values.reshape(len(weight), *node.words[:2], *read.shape[1:]), y[image, outputs])
        else:
            y[image, outputs] = values.reshape(len(weight), *out)

    largest = CONV_BLOCK // (x[0, 0].size * node.words[0] * node.words[1])
    run_blocks(
        [
            partial(block, i, g, part)
            for i in range(len(x))
            for g in range(group)
            for part in split_range(per_out, largest)
        ]
    )
    return (y.reshape(spec.shape),)


def _is_tiled(node: Node, size: tuple[int, ...], out: tuple[int, int]) -> bool:
    """Returns whether each element of the output is the product of exactly one tap."""
    kernel, stride, pad, dilation = (node.words[k : k + n] for k, n in ((0, 2), (2, 2), (4, 4), (8, 2)))
    whole = out == (size[0] * stride[0], size[1] * stride[1])
    return kernel == stride and dilation == (1, 1) and not any(pad) and whole


def _lay_tiles(values: Array, y: Array) -> None:
    """Writes values [O, kh, kw, H, W] to y [O, H * kh, W * kw], in which each element of the input makes a tile."""
    for i in range(values.shape[1]):
        for j in range(values.shape[2]):
            y[:, i :: values.shape[1], j :: values.shape[2]] = values[:, i, j]


def _scatter(node: Node, x: Array, weight: Array, out: tuple[int, int]) -> Array:
    """Returns the sums [O, *out] of the products of x [I, H, W] and weight [O, taps, I]. The products of each tap are
    added at their output positions, some taps at a time."""
    acc = np.zeros((len(weight), *out), x.dtype)
    each = max(1, MAX_PRODUCTS // (len(weight) * x[0].size))
    for first in range(0, weight.shape[1], each):
        _add_taps(node, acc, x, weight[:, first : first + each], first)
    return acc


def _add_taps(node: Node, acc: Array, x: Array, weight: Array, first: int) -> None:
    """Adds the products of some taps to acc. first: number of the first of these taps. weight: the weights of these
    taps."""
    _, kernel_w, stride_h, stride_w, top, left, _, _, dilation_h, dilation_w = node.words[:10]
    height, width = x.shape[1:]
    products = (weight.reshape(-1, len(x)) @ x.reshape(len(x), -1)).reshape(*weight.shape[:2], height, width)
    for tap in range(weight.shape[1]):
        i, j = divmod(first + tap, kernel_w)
        rows, source_rows = find_landing_slices(i * dilation_h - top, stride_h, height, acc.shape[1])
        columns, source_columns = find_landing_slices(j * dilation_w - left, stride_w, width, acc.shape[2])
        acc[:, rows, columns] += products[:, tap, source_rows, source_columns]
