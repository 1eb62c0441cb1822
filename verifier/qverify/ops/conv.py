"""y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): 1-D and 2-D convolution, groups, dilation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import exact_dtype, largest_centred
from qverify.arithmetic.linear import Output, along_axis, is_wide
from qverify.arithmetic.windows import Window, as_planes, plane_shape
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (
    "kernel_h",
    "kernel_w",
    "stride_h",
    "stride_w",
    "pad_top",
    "pad_left",
    "pad_bottom",
    "pad_right",
    "dilation_h",
    "dilation_w",
    "group",
    "act_min",
    "act_max",
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """weight: centred, [group, O/group, I/group * kh * kw] in the exact dtype; bias [O] or None."""

    window: Window
    group: int
    weight: Array
    bias: Array | None
    output: Output


def constant(graph: Graph, name: str | None) -> Array | None:
    return None if name is None else graph.constants[name]


def prepare(node: Node, graph: Graph) -> Prepared:
    x, w, y = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or ""), graph.spec(node.outputs[0])
    kernel_h, kernel_w, stride_h, stride_w, top, left, bottom, right, dilation_h, dilation_w, group, low, high = (
        node.words
    )
    centred = graph.constants[w.name].astype(np.int64) - along_axis(w.zero_point, 4, w.channel_axis)
    flat = centred.reshape(w.shape[0], -1)
    bias = constant(graph, node.inputs[2])
    largest_bias = 0 if bias is None else int(np.abs(bias.astype(np.int64)).max())
    dtype = exact_dtype(largest_centred(x.dtype, x.zero_point[0]), int(np.abs(flat).sum(1).max()), largest_bias)
    output = Output(
        graph.constants[node.inputs[3] or ""],
        y.zero_point[0],
        low,
        high,
        y.dtype,
        graph.rounding,
        is_wide(x.dtype, w.dtype, y.dtype),
    )
    return Prepared(
        Window((kernel_h, kernel_w), (stride_h, stride_w), (top, left, bottom, right), (dilation_h, dilation_w)),
        group,
        np.ascontiguousarray(flat.reshape(group, w.shape[0] // group, -1).astype(dtype)),
        None if bias is None else bias.astype(dtype),
        output,
    )


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Prepared) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    zero = graph.spec(node.inputs[0] or "").zero_point[0]
    dtype, out = state.weight.dtype, plane_shape(y.shape)
    centred = as_planes(x).astype(dtype)
    if zero:
        centred -= zero
    if state.weight.shape[2] == state.window.kernel[0] * state.window.kernel[1]:
        acc = _depthwise(centred, state, out)
    else:
        acc = _grouped(centred, state, out)
    if state.bias is not None:
        acc += state.bias.reshape(1, -1, 1, 1)
    return (state.output.of(acc).reshape(y.shape),)


def _depthwise(x: Array, state: Prepared, out: tuple[int, int]) -> Array:
    """One input channel a group: a sum over taps, each a contiguous multiply-add over whole planes."""
    n, per_group = len(x), state.weight.shape[1]
    padded = state.window.padded(x, out, 0)
    weight = state.weight.reshape(state.group * per_group, -1)
    acc = np.empty((n, state.group * per_group, *out), x.dtype)
    step = max(1, (1 << 17) // max(1, out[0] * out[1]))
    for first in range(0, state.group, step):
        chunk = padded[:, first : first + step]
        rows = slice(first * per_group, (first + chunk.shape[1]) * per_group)
        part = acc[:, rows]
        product = np.empty_like(part)
        for k, tap in enumerate(state.window.taps(chunk, out)):
            source = tap if per_group == 1 else np.repeat(tap, per_group, 1)
            if k == 0:
                np.multiply(source, weight[rows, k].reshape(1, -1, 1, 1), out=part)
            else:
                np.multiply(source, weight[rows, k].reshape(1, -1, 1, 1), out=product)
                part += product
    return acc


def _grouped(x: Array, state: Prepared, out: tuple[int, int]) -> Array:
    """One matrix product a group; a 1x1 kernel needs no patches."""
    n, channels, per_group = len(x), x.shape[1] // state.group, state.weight.shape[1]
    padded = state.window.padded(x, out, 0)
    if state.window.kernel == (1, 1):
        columns = next(state.window.taps(padded, out)).reshape(n, x.shape[1], 1, -1)
    else:
        columns = state.window.columns(padded, out)
    acc = np.empty((n, state.group * per_group, out[0] * out[1]), x.dtype)
    for g in range(state.group):
        patch = columns[:, g * channels : (g + 1) * channels].reshape(n, -1, out[0] * out[1])
        np.matmul(state.weight[g], patch, out=acc[:, g * per_group : (g + 1) * per_group])
    return acc.reshape(n, -1, *out)
