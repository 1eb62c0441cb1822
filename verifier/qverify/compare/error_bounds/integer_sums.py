"""Exact values and error bounds of single elements of integer sums that onnxruntime computes in float32 (16-bit and
mixed types, conv_transpose).

Each function that is named after an op takes its operands and flat positions in the output, and returns the sums at
these positions. It raises NoBound if there is no bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from qverify.arithmetic.linear import along_axis
from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.compare.error_bounds.bounded_values import (
    ROUNDOFF,
    TINY,
    Array,
    NoBound,
    Real,
    Reals,
    Whole,
    round_interval,
)
from qverify.compare.error_bounds.probable import bound_sum, is_probable, take_rows
from qverify.model_bin.graph import Graph, Node

EXTRA = 8  # roundings besides those of the sum: x, w, alpha, bias (2), its scale, the division, one in reserve
# Errors of qverify's own sums, which are exact and rounded once. OURS, relative to 1 + |value|, covers the order of two
# float64 factors.
OURS = 2.0**-30
OURS_FLOAT = 2.0**-50  # of sum |terms|: a float output is scaled and offset in float64, then rounded once
TERMS_AT_ONCE = 1 << 22  # terms that are in memory at the same time


@dataclass(frozen=True, slots=True)
class IntegerSums:
    """Sums of one op, in LSB of the output.

    Attributes:
        value: the sums before the zero point is added.
        size: the sums of the magnitudes of the terms.
        terms: number of terms of one sum.
        doubt: error of the bias.
        step: value of one step of the integer sum, or 0 if operands are scaled before they are added.
        squares, rows: the sums of the squares of the terms, and the terms of some of the sums, [R, n]; None where probable
            errors are not asked for.
    """

    value: Reals
    size: Reals
    terms: int
    doubt: Reals | float = 0.0
    step: Reals | float = 0.0
    squares: Reals | None = None
    rows: Reals | None = None

    def with_terms(self, products: Reals, scale: Reals | float) -> IntegerSums:
        """Returns the sums with what probable errors need of their terms, [E, n], in steps. scale: of each sum, or of all."""
        if not is_probable():
            return self
        along = np.broadcast_to(np.asarray(scale, np.float64), (len(products),))
        squares = (products**2).sum(-1) * along**2
        return replace(self, squares=squares, rows=take_rows(products) * take_rows(along[:, None]))

    def bound(self, more: Reals | float = 0.0) -> Reals:
        """Returns the error of the sums in float32, in any order. more: what is added to the magnitudes."""
        rows = self.rows
        return bound_sum(
            self.terms + EXTRA, self.size + more, self.value, self.squares, None if rows is None else lambda: rows
        )


@dataclass(frozen=True, slots=True)
class SumOperands:
    """The recorded or constant integers that a node reads. given: the recorded ones, by name."""

    node: Node
    graph: Graph
    given: dict[str, Array]

    def centred(self, at: int) -> Reals:
        """Returns input number `at` with its zero point subtracted."""
        spec = self.graph.spec(self.node.inputs[at] or "")
        zero = along_axis(spec.zero_point, len(spec.shape), max(spec.channel_axis, 0))
        return self.stored(at).astype(np.float64) - zero

    def stored(self, at: int) -> Array:
        """Returns input number `at` as it is stored."""
        name = self.node.inputs[at] or ""
        return self.graph.constants[name] if name in self.graph.constants else self.given[name]

    @property
    def rq(self) -> Reals:
        """The scales, in LSB of the output. Raises NoBound in the integer modes, which use integer multipliers."""
        value = self.graph.constants[next(n for n in reversed(self.node.inputs) if n is not None)]
        if value.dtype.kind != "f":
            raise NoBound(f"{self.node.op} with the multipliers of {self.graph.rounding}")
        return value.astype(np.float64)

    def scale(self, channel: Array) -> Reals:
        """Returns the scale of each of these output channels."""
        rq = self.rq
        return rq[channel] if rq.size > 1 else np.broadcast_to(rq.reshape(-1)[:1], channel.shape)

    def bias(self, channel: Array) -> Reals | None:
        """Returns the bias of each of these output channels, or None if the node has none."""
        name = self.node.inputs[2]
        return None if name is None else self.graph.constants[name].astype(np.float64).reshape(-1)[channel]

    @property
    def has_float_output(self) -> bool:
        """Whether the output is float32, so that sums are scaled and not requantized."""
        return self.graph.spec(self.node.outputs[0]).numpy_dtype.kind == "f"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the output."""
        return self.graph.spec(self.node.outputs[0]).shape

    def dot(self, x: Reals, w: Reals, channel: Array, bias: Reals | None) -> IntegerSums:
        """Returns the scaled sums of x * w along the last axis, with the bias. The bias of an integer output has an
        error of half a step of the accumulator. That of a float output is exact: an integer is added before scaling, a
        real number after it."""
        products = x * w
        sums = self.scaled(products.sum(-1), np.abs(products).sum(-1), x.shape[-1], channel, bias)
        return sums.with_terms(products, self.scale(channel))

    def scaled(self, value: Reals, size: Reals, terms: int, channel: Array, bias: Reals | None) -> IntegerSums:
        """Returns sums of products with these magnitudes, with bias and scales, as dot() does."""
        scale = self.scale(channel)
        if self.has_float_output:
            whole = bias is None or self.graph.constants[self.node.inputs[2] or ""].dtype.kind == "i"
            inside, outside = (bias, None) if whole else (None, bias)
            inside, outside = (np.zeros(1) if b is None else b for b in (inside, outside))
            return IntegerSums(
                (value + inside) * scale + outside, (size + np.abs(inside)) * scale + np.abs(outside), terms
            )
        if bias is not None:
            value, size = value + bias, size + np.abs(bias)
        return IntegerSums(value * scale, size * scale, terms, 0.0 if bias is None else 0.5 * scale, scale)


def conv(o: SumOperands, at: Array) -> IntegerSums:
    factors = read_conv_terms(as_planes(o.centred(0)), o.centred(1), o.node, plane_shape(o.shape), at)
    return o.dot(*factors, o.bias(factors[2]))


def read_conv_terms(x: Reals, w: Reals, node: Node, out: tuple[int, int], at: Array) -> tuple[Reals, Reals, Array]:
    """Returns what a convolution multiplies at these flat positions, input and weights, [E, n], and the channels."""
    window, group = window_of(node.words), node.words[10]
    image, channel, row, column = np.unravel_index(at, (len(x), len(w), *out))
    padded, each = window.padded(x, out, 0.0), w.shape[1]
    reads = (channel // (len(w) // group) * each)[:, None] + np.arange(each)
    rows = (row * window.stride[0])[:, None] + np.arange(window.kernel[0]) * window.dilation[0]
    columns = (column * window.stride[1])[:, None] + np.arange(window.kernel[1]) * window.dilation[1]
    patch = padded[image[:, None, None, None], reads[:, :, None, None], rows[:, None, :, None], columns[:, None, None]]
    return patch.reshape(len(at), -1), w[channel].reshape(len(at), -1), channel


def conv_transpose(o: SumOperands, at: Array) -> IntegerSums:
    factors = read_transposed_terms(as_planes(o.centred(0)), o.centred(1), o.node, plane_shape(o.shape), at)
    return o.dot(*factors, o.bias(factors[2]))


def read_transposed_terms(
    x: Reals, w: Reals, node: Node, out: tuple[int, int], at: Array
) -> tuple[Reals, Reals, Array]:
    """Returns what a transposed convolution multiplies at these flat positions, as read_conv_terms() does."""
    window, group = window_of(node.words), node.words[10]
    into = w.shape[1] * group
    image, channel, row, column = np.unravel_index(at, (len(x), into, *out))
    rows, columns = (
        _find_sources(
            where, window.pad[axis], window.stride[axis], window.dilation[axis], window.kernel[axis], x.shape[2 + axis]
        )
        for axis, where in ((0, row), (1, column))
    )
    each = len(w) // group
    reads = (channel // w.shape[1] * each)[:, None] + np.arange(each)
    patch = x[image[:, None, None, None], reads[:, :, None, None], rows[0][:, None, :, None], columns[0][:, None, None]]
    patch = patch * (rows[1][:, None, :, None] & columns[1][:, None, None])
    taken = w[reads, (channel % w.shape[1])[:, None]]
    return patch.reshape(len(at), -1), taken.reshape(len(at), -1), channel


def _find_sources(where: Array, pad: int, stride: int, dilation: int, kernel: int, size: int) -> tuple[Array, Array]:
    """Returns, as [E, kernel], the index of the input element that each tap of an output element reads, and a mask of
    the taps that read one."""
    far = where[:, None] + pad - np.arange(kernel) * dilation
    index = far // stride
    return np.clip(index, 0, size - 1), (far % stride == 0) & (index >= 0) & (index < size)


def fully_connected(o: SumOperands, at: Array) -> IntegerSums:
    x, w = o.centred(0), o.centred(1)
    row, column = np.unravel_index(at, (len(x), len(w)))
    return o.dot(x[row], w[column], column, o.bias(column))


def matmul(o: SumOperands, at: Array) -> IntegerSums:
    a, b = o.centred(0), o.centred(1)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(v, (*lead, *v.shape[-2:])) for v in (a, b))
    *outer, row, column = np.unravel_index(at, (*lead, a.shape[-2], b.shape[-1]))
    return o.dot(a[(*outer, row)], np.moveaxis(b, -1, -2)[(*outer, column)], column, None)


def _broadcast(o: SumOperands, at: Array) -> tuple[Reals, Reals]:
    """Returns the centred elements of both operands at these positions."""
    if any(len(o.graph.spec(n or "").zero_point) > 1 for n in o.node.inputs[:2]):
        a, b = np.broadcast_arrays(o.centred(0), o.centred(1))
        return a.reshape(-1)[at], b.reshape(-1)[at]
    first, second = (v.reshape(-1)[at].astype(np.float64) for v in np.broadcast_arrays(o.stored(0), o.stored(1)))
    zeros = [sum(o.graph.spec(n or "").zero_point) for n in o.node.inputs[:2]]
    return first - zeros[0], second - zeros[1]


def add(o: SumOperands, at: Array) -> IntegerSums:
    a, b = _broadcast(o, at)
    if o.rq.size != 2:
        raise NoBound("add in float32")
    a, b = a * o.rq[0], b * o.rq[1]
    return IntegerSums(a + b, np.abs(a) + np.abs(b), 2)


def mul(o: SumOperands, at: Array) -> IntegerSums:
    a, b = _broadcast(o, at)
    value = a * b * o.rq.reshape(-1)[0]
    return IntegerSums(value, np.abs(value), 1, step=float(o.rq.reshape(-1)[0]))


def global_average_pool(o: SumOperands, at: Array) -> IntegerSums:
    x = o.centred(0)
    taken = x.reshape(x.shape[0] * x.shape[1], -1)[at]
    return _average(o, taken)


def reduce_mean(o: SumOperands, at: Array) -> IntegerSums:
    x = o.centred(0)
    axes = [i for i in range(x.ndim) if o.node.words[0] >> i & 1]
    count = prod(x.shape[i] for i in axes)
    return _average(o, np.moveaxis(x, axes, range(-len(axes), 0)).reshape(-1, count)[at])


def _average(o: SumOperands, taken: Reals) -> IntegerSums:
    scale = o.rq.reshape(-1)[0]
    sums = IntegerSums(taken.sum(-1) * scale, np.abs(taken).sum(-1) * scale, taken.shape[-1], step=float(scale))
    return sums.with_terms(taken, float(scale))


def average_pool(o: SumOperands, at: Array) -> IntegerSums:
    x, (include_pad, *_) = as_planes(o.centred(0)), o.node.words[8:]
    if o.rq.size != 1:
        raise NoBound("average_pool in float32")
    window, out = window_of(o.node.words, dilated=False), plane_shape(o.shape)
    image, channel, row, column = np.unravel_index(at, (*x.shape[:2], *out))
    rows, columns = (
        (where * window.stride[axis])[:, None] + np.arange(window.kernel[axis])
        for axis, where in ((0, row), (1, column))
    )
    index = (image[:, None, None], channel[:, None, None], rows[:, :, None], columns[:, None])
    padded, inside = window.padded(x, out, 0.0), window.padded(np.ones_like(x), out, 0.0)
    taken, count = padded[index].reshape(len(at), -1), inside[index].reshape(len(at), -1).sum(1)
    divisor = prod(window.kernel) if include_pad else np.maximum(count, 1)
    scale = o.rq.reshape(-1)[0] / divisor
    sums = IntegerSums(taken.sum(1) * scale, np.abs(taken).sum(1) * scale, taken.shape[1], step=scale)
    return sums.with_terms(taken, scale)


SUMS: dict[str, Callable[[SumOperands, Array], IntegerSums]] = {
    f.__name__: f
    for f in (conv, conv_transpose, fully_connected, matmul, add, mul, global_average_pool, reduce_mean, average_pool)
}


def terms_of(o: SumOperands) -> int:
    """Returns the number of terms of one sum, approximately where windows overlap padding; 1 for an op without sums."""
    spec: Any = o.graph.spec(o.node.inputs[0] or "")
    if o.node.op in ("conv", "conv_transpose", "fully_connected") and o.node.inputs[1] is not None:
        weights = o.graph.spec(o.node.inputs[1])
        return max(1, weights.elements // max(1, weights.shape[1 if o.node.op == "conv_transpose" else 0]))
    return int(max(1, spec.shape[-1])) if o.node.op == "matmul" else int(max(1, spec.elements // max(1, prod(o.shape))))


def bound_elements(o: SumOperands, at: Array) -> Whole | Real:
    """Returns the bounded values at these flat positions of the output."""
    y = o.graph.spec(o.node.outputs[0])
    low, high = o.node.words[-2:]
    sums = SUMS[o.node.op](o, at)
    error = sums.bound() + sums.doubt
    if o.has_float_output:
        own_error = ROUNDOFF * np.abs(sums.value) + OURS_FLOAT * sums.size + TINY
        bounded = Real(sums.value, error + (sums.terms + 2) * TINY, own_error)
        return bounded.mark_lost_if_large(sums.size).as_float32()
    whole = round_interval(sums.value, error, y.zero_point[0], (low, high))
    ours = round_interval(sums.value, OURS * (1 + np.abs(sums.value)), y.zero_point[0], (low, high))
    return replace(whole, ours=(ours.low, ours.high))
