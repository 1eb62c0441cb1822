"""y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): 1-D and 2-D convolution, groups, dilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.byte_products import ByteProduct, plan_byte_product, signed_bytes
from qverify.arithmetic.exact_matmul import ExactSumPlan, centred, narrow_type, widen
from qverify.arithmetic.linear import Requantization, along_axis, apply_to_rows
from qverify.arithmetic.strips import Strip, strip_of
from qverify.arithmetic.windows import DILATION_WORDS, WINDOW_WORDS, Cut, Window, as_planes, plane_shape, window_of
from qverify.arithmetic.workers import core_count, run_blocks, split_range
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.linear_nodes import plan_node_sums, read_requantization, whole_bias

Array = npt.NDArray[Any]
DEPTHWISE_BLOCK, STRIP_BLOCK = 1 << 17, 1 << 19  # elements of a block that stay in a second-level cache (measured)
WEIGHTS_BLOCK = 1 << 19  # weights that are converted at once
PRODUCTS_BLOCK = 1 << 22  # smallest number of multiplications of a block
WORDS = (*WINDOW_WORDS, *DILATION_WORDS, "group", "act_min", "act_max")


@dataclass(frozen=True, slots=True)
class PreparedConv:
    """The prepared constants of a conv node.

    Attributes:
        window: the window, without the taps that read only padding.
        weight: centred weights, or as stored with of_bytes. [group, O/group, kh * I/group * kw], of which many have
            their narrow type; for groups of one channel [kh, group, O/group, kw].
        terms: plan by which the sums are exact.
        bias: [O] in the type of the sums, or int32 with of_bytes; or None.
        requantization: the requantization of the sums.
        image: index of the part of x that the window reads.
        zero: zero point of x, one number or [I, 1, 1].
        of_bytes: the product of the operands as they are stored, or None.
    """

    window: Window
    weight: Array
    terms: ExactSumPlan
    bias: Array | None
    requantization: Requantization
    image: Cut
    zero: Array | int
    of_bytes: ByteProduct | None


def prepare(node: Node, graph: Graph) -> PreparedConv:
    w = graph.spec(node.inputs[1] or "")
    window, group = window_of(node.words), node.words[10]
    stored = centred(graph.constants[w.name], along_axis(w.zero_point, 4, w.channel_axis), narrow_type(w.dtype))
    if w.shape[2:] != window.kernel:
        raise ValueError(f"weights {list(w.shape)} for a kernel of {window.kernel}")
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    window, taps, kept = window.cropped(plane_shape(x.shape), plane_shape(y.shape))
    kernel = stored[taps].transpose(0, 2, 1, 3)  # [O, kh, I/group, kw]
    flat = kernel.reshape(w.shape[0], -1)
    bias = whole_bias(node, graph, w.shape[0])
    terms = plan_node_sums(node, graph, flat, bias)
    of_bytes = None
    if w.shape[1] == 1 and group > 1:
        of_groups = kernel.reshape(group, w.shape[0] // group, *window.kernel).transpose(2, 0, 1, 3)
        weight = np.ascontiguousarray(of_groups, terms.whole)
    else:
        sums, operands = prod(y.shape) // group, ((w.dtype, w.zero_point), (x.dtype, x.zero_point))
        of_bytes = plan_byte_product(*operands, (sums, flat.shape[1]), terms.whole, bias)
        if of_bytes:
            flat = graph.constants[w.name][taps].transpose(0, 2, 1, 3).reshape(flat.shape)
        weight = (flat if of_bytes else widen(flat, terms.dtype)).reshape(group, w.shape[0] // group, -1)
    whole = None if bias is None else bias.astype(np.int32 if of_bytes else terms.whole)
    zeros = x.zero_point
    zero = along_axis(zeros, 3, 0) if len(zeros) > 1 else zeros[0]
    return PreparedConv(window, weight, terms, whole, read_requantization(node, graph, axis=0), kept, zero, of_bytes)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: PreparedConv) -> tuple[Array, ...]:
    x, spec = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    outputs = state.weight.shape[0] * state.weight.shape[1] if state.weight.ndim == 3 else spec.shape[1]
    y = np.empty((len(x), outputs, *plane_shape(spec.shape)), spec.dtype)
    blocks_of = _convolve_grouped if state.weight.ndim == 3 else _convolve_depthwise
    for image, result in zip(as_planes(x)[state.image], y, strict=True):
        run_blocks(blocks_of(image, state, result))
    return (y.reshape(spec.shape),)


def _zero_of(state: PreparedConv, channels: slice) -> Array | int:
    return state.zero if isinstance(state.zero, int) else state.zero[channels]


def _convolve_depthwise(x: Array, state: PreparedConv, y: Array) -> list[Callable[[], None]]:
    """Computes groups of one input channel: a product of a row of weights and its strip for each row of the kernel."""
    (_, rows, width), (_, group, per_group, _), dtype = y.shape, state.weight.shape, state.weight.dtype

    def block(some: slice) -> None:
        strip = strip_of(x[some], state.window, width, slice(0, rows), _zero_of(state, some), dtype)
        acc = _multiply_rows(strip, state.weight[:, some])
        outputs = slice(some.start * per_group, some.stop * per_group)
        acc = acc.reshape(-1, rows * width)
        if state.bias is not None:
            apply_to_rows(np.add, acc, state.bias[outputs, None])
        state.requantization.select(outputs).apply_into(acc, y.reshape(len(y), -1)[outputs])

    return [partial(block, some) for some in split_range(group, DEPTHWISE_BLOCK // (rows * width * per_group))]


def _multiply_rows(strip: Strip, weight: Array) -> Array:
    """Returns the sums [C, O/C, elements] over the rows of the kernel. weight: [kh, C, O/C, kw]."""
    _, channels, _, kernel_w = weight.shape
    acc = weight[0] @ strip.matrix(0).reshape(channels, kernel_w, -1)
    product = np.empty_like(acc) if len(weight) > 1 else acc
    for i in range(1, len(weight)):
        np.matmul(weight[i], strip.matrix(i).reshape(channels, kernel_w, -1), out=product)
        acc += product
    return acc


def _convolve_grouped(x: Array, state: PreparedConv, y: Array) -> list[Callable[[], None]]:
    """Computes the products of each group and run of rows whose strip fits the cache; for one run of rows, those of
    each run of outputs."""
    (group, per_group, terms), (_, height, width) = state.weight.shape, y.shape
    channels, flat = terms // (state.window.kernel[0] * state.window.kernel[1]), y.reshape(len(y), -1)

    def strip(g: int, rows: slice) -> Strip:
        some = slice(g * channels, (g + 1) * channels)
        if state.of_bytes:
            zero = state.of_bytes.zeros[1]
            return strip_of(signed_bytes(x[some]), state.window, width, rows, 0, np.dtype(np.int8), padding=zero)
        ones = state.bias is not None and state.terms.dtype == state.terms.whole
        return strip_of(x[some], state.window, width, rows, _zero_of(state, some), state.terms.dtype, ones)

    def product(g: int, read: Strip, rows: slice, some: slice) -> None:
        outputs = slice(g * per_group + some.start, g * per_group + some.stop)
        acc = _sum_products(read, state, state.weight[g, some], outputs)
        state.requantization.select(outputs).apply_into(acc, flat[outputs, rows.start * width : rows.stop * width])

    def block(g: int, rows: slice) -> None:
        product(g, strip(g, rows), rows, slice(0, per_group))

    read_once = channels * state.window.kernel[1] * (state.window.kernel[0] if _copies_all(state) else 1)
    strips = split_range(height, STRIP_BLOCK // (read_once * width))
    if group * len(strips) != 1:
        return [partial(block, g, rows) for g in range(group) for rows in strips]
    read = strip(0, strips[0])
    most = max(PRODUCTS_BLOCK // max(1, terms * height * width), -(-per_group // core_count()))
    if state.weight.dtype != state.terms.dtype and not state.of_bytes:
        most = min(most, max(1, WEIGHTS_BLOCK // terms))
    return [partial(product, 0, read, strips[0], part) for part in split_range(per_group, most)]


def _copies_all(state: PreparedConv) -> bool:
    """Returns whether one product over all rows of the kernel, which copies what each reads, is faster than a product
    for each row, which adds them."""
    rows, (_, outputs, terms) = state.window.kernel[0], state.weight.shape
    return rows == 1 or state.terms.dtype != state.terms.whole or terms <= (rows - 1) * outputs


def _sum_products(read: Strip, state: PreparedConv, weight: Array, outputs: slice) -> Array:
    """Returns the sums [O, elements] of the products and the bias. weight: those of the outputs [O, terms]."""
    if state.of_bytes:
        bias = None if state.bias is None else state.bias[outputs]
        if _copies_all(state):
            return state.of_bytes.sum_products([weight], [read.whole()], bias)
        rows = range(len(read.starts))
        return state.of_bytes.sum_products(np.split(weight, len(rows), 1), [read.matrix(i) for i in rows], bias)
    if state.terms.dtype != state.terms.whole:
        acc = state.terms.product(weight.astype(state.terms.dtype, copy=False), read.whole())
        if state.bias is not None:
            acc += state.bias[outputs, None]
        return acc
    factors = np.empty((len(weight), read.ones + weight.shape[1]), state.terms.dtype)
    factors[:, read.ones :] = weight
    if state.bias is not None:
        factors[:, 0] = state.bias[outputs]
    kernel_h, each = len(read.starts), weight.shape[1] // len(read.starts)
    if _copies_all(state):
        return factors @ read.whole()
    acc = factors[:, : read.ones + each] @ read.matrix(0, ones=True)
    product = np.empty_like(acc)
    for i in range(1, kernel_h):
        first = read.ones + i * each
        np.matmul(factors[:, first : first + each], read.matrix(i), out=product)
        acc += product
    return acc
