"""y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): 1-D and 2-D convolution, groups, dilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import ExactSumPlan, centred, narrow_type, widen
from qverify.arithmetic.linear import Requantization, along_axis
from qverify.arithmetic.planes import Planes, planes_of
from qverify.arithmetic.windows import DILATION_WORDS, WINDOW_WORDS, Cut, Window, as_planes, plane_shape, window_of
from qverify.arithmetic.workers import core_count, run_blocks, split_range
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import plan_node_sums, read_requantization, whole_bias

Array = npt.NDArray[Any]
DEPTHWISE_BLOCK, COLUMNS_BLOCK = 1 << 16, 1 << 20  # elements of a block that stay in a second-level cache (measured)
PRODUCTS_BLOCK = 1 << 22  # smallest number of multiplications of a block
WORDS = (*WINDOW_WORDS, *DILATION_WORDS, "group", "act_min", "act_max")


@dataclass(frozen=True, slots=True)
class PreparedConv:
    """The prepared constants of a conv node.

    Attributes:
        window: the window, without the taps that read only padding.
        group: number of groups.
        weight: centred weights, [group, O/group, I/group * kh * kw]. Many weights have their narrow type.
        terms: plan by which the sums are exact.
        bias: [O], or None.
        requantization: the requantization of the sums.
        image: index of the part of x that the window reads.
    """

    window: Window
    group: int
    weight: Array
    terms: ExactSumPlan
    bias: Array | None
    requantization: Requantization
    image: Cut


def prepare(node: Node, graph: Graph) -> PreparedConv:
    w = graph.spec(node.inputs[1] or "")
    window, group = window_of(node.words), node.words[10]
    stored = centred(graph.constants[w.name], along_axis(w.zero_point, 4, w.channel_axis), narrow_type(w.dtype))
    if w.shape[2:] != window.kernel:
        raise ValueError(f"weights {list(w.shape)} for a kernel of {window.kernel}")
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    window, taps, kept = window.cropped(plane_shape(x.shape), plane_shape(y.shape))
    flat = stored[taps].reshape(w.shape[0], -1)
    bias = whole_bias(node, graph)
    terms = plan_node_sums(node, graph, flat, bias)
    return PreparedConv(
        window,
        group,
        widen(flat, terms.dtype).reshape(group, w.shape[0] // group, -1),
        terms,
        None if bias is None else bias.astype(terms.whole),
        read_requantization(node, graph),
        kept,
    )


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: PreparedConv) -> tuple[Array, ...]:
    x, spec = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    zeros, out = graph.spec(node.inputs[0] or "").zero_point, plane_shape(spec.shape)
    zero = along_axis(zeros, 3, 0) if len(zeros) > 1 else zeros[0]
    y = np.empty((len(x), state.weight.shape[0] * state.weight.shape[1], *out), spec.dtype)
    one_channel = state.weight.shape[2] == state.window.kernel[0] * state.window.kernel[1]
    blocks_of = _convolve_depthwise if one_channel and state.group > 1 else _convolve_grouped
    for image, result in zip(as_planes(x)[state.image], y, strict=True):
        run_blocks(blocks_of(planes_of(image, state.window, out, zero, state.terms.dtype), state, result))
    return (y.reshape(spec.shape),)


def _requantize_into(acc: Array, outputs: slice, state: PreparedConv, y: Array) -> None:
    """Requantizes acc [outputs, rows * width] into y [outputs, rows, columns]."""
    if state.bias is not None:
        acc += state.bias[outputs, None]
    requantization, planes = state.requantization.select(outputs), acc.reshape(len(y), y.shape[1], -1)
    if planes.shape == y.shape:
        requantization.apply_into(planes, y)
    else:
        y[...] = requantization.apply(planes)[:, :, : y.shape[2]]


def _convolve_depthwise(planes: Planes, state: PreparedConv, y: Array) -> list[Callable[[], None]]:
    """Computes groups of one input channel: a sum over taps, each a contiguous multiply-add over whole planes."""
    per_group, rows = state.weight.shape[1], y.shape[1]
    weight = state.weight.reshape(len(y), -1).astype(state.terms.whole, copy=False)

    def block(channels: slice) -> None:
        outputs = slice(channels.start * per_group, channels.stop * per_group)
        acc = np.zeros((outputs.stop - outputs.start, rows * planes.width), weight.dtype)
        product = np.empty_like(acc)
        for k in range(len(planes.taps)):
            tap = planes.tap(k, channels, 0, rows)
            np.multiply(tap if per_group == 1 else np.repeat(tap, per_group, 0), weight[outputs, k, None], out=product)
            acc += product
        _requantize_into(acc, outputs, state, y[outputs])

    return [
        partial(block, run) for run in split_range(state.group, DEPTHWISE_BLOCK // (rows * planes.width * per_group))
    ]


def _convolve_grouped(planes: Planes, state: PreparedConv, y: Array) -> list[Callable[[], None]]:
    """Computes one matrix product for each group and run of rows whose patches fit the cache; for one run of rows, one
    product for each run of outputs."""
    channels, per_group, height = len(planes.flat) // state.group, state.weight.shape[1], y.shape[1]

    def product(g: int, patch: Array, of_group: slice, rows: slice) -> None:
        outputs = slice(g * per_group + of_group.start, g * per_group + of_group.stop)
        weight = state.weight[g, of_group].astype(state.terms.dtype, copy=False)
        _requantize_into(state.terms.product(weight, patch), outputs, state, y[outputs, rows])

    def block(g: int, rows: slice) -> None:
        patch = planes.columns(slice(g * channels, (g + 1) * channels), rows.start, rows.stop - rows.start)
        product(g, patch, slice(0, per_group), rows)

    strips = split_range(height, COLUMNS_BLOCK // (state.weight.shape[2] * planes.width))
    if state.group * len(strips) != 1:
        return [partial(block, g, rows) for g in range(state.group) for rows in strips]
    patch = planes.columns(slice(0, channels), 0, height)
    most = max(PRODUCTS_BLOCK // max(1, patch.size), -(-per_group // core_count()))
    return [partial(product, 0, patch, part, strips[0]) for part in split_range(per_group, most)]
