"""Exact values and error bounds of convolutions and matrix products of floats (NUMERICS.md section 4).

Each function that is named after an op takes a node, its bounded inputs and the graph, and returns the bounded
outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.compare.error_bounds.bounded_values import (
    ROUNDOFF,
    TINY,
    Array,
    BoundedValue,
    Real,
    Reals,
    float_word,
    require_real,
)
from qverify.compare.error_bounds.integer_sums import read_conv_terms, read_transposed_terms
from qverify.compare.error_bounds.probable import bound_sum, is_probable, take_positions
from qverify.model_bin.graph import Graph, Node

EXTRA = 6  # roundings besides those of the sum of products: bias, alpha, beta, their two products, one in reserve
DOUBLE = 2.0**-52  # twice the error of each float64 addition of this evaluation


@dataclass(frozen=True, slots=True)
class FloatSums:
    """Sums of products, in float64.

    Attributes:
        value: the sums.
        size: the sums of the magnitudes of the terms.
        terms: number of terms of one sum.
        moved: the part of the error that comes from the errors of the terms, or None if they have none.
        squares, rows: the sums of the squares of the terms, and a function that returns the terms of some of the sums,
            [R, n]; None where probable errors are not asked for.
    """

    value: Reals
    size: Reals
    terms: int
    moved: Reals | None = None
    squares: Reals | None = None
    rows: Callable[[], Reals] | None = None

    def scaled(self, factor: float) -> FloatSums:
        """Returns the sums times a factor."""
        moved = None if self.moved is None else abs(factor) * self.moved
        squares = None if self.squares is None else factor**2 * self.squares
        return replace(self, value=factor * self.value, size=abs(factor) * self.size, moved=moved, squares=squares)

    def plus(self, more: Real) -> FloatSums:
        """Returns the sums with one additional term, which a kernel may add first or last."""
        size = self.size + np.abs(more.value) + more.error
        moved = more.error if self.moved is None else self.moved + more.error
        squares = None if self.squares is None else self.squares + more.value**2
        kept = moved if moved.any() else None
        return replace(self, value=self.value + more.value, size=size, moved=kept, squares=squares)

    def bounded(self, shape: tuple[int, ...], roundings: float = 1.0) -> Real:
        """Returns the sums with the error of any float32 kernel, and with that of qverify's own, which rounds the exact
        sum once. roundings: number of roundings to float32 in qverify's kernel; those beyond the first are relative to
        the size of the terms."""
        error = bound_sum(self.terms + EXTRA, self.size, self.value, self.squares, self.rows)
        error = error + (self.terms + 2) * TINY
        own_error = (
            ROUNDOFF * (np.abs(self.value) + (roundings - 1) * self.size) + DOUBLE * self.terms * self.size + TINY
        )
        whole = np.broadcast_to(error if self.moved is None else self.moved + error, self.value.shape)
        y = Real(self.value, whole, None if self.moved is not None else np.broadcast_to(own_error, whole.shape))
        return y.mark_lost_if_large(self.size).shaped(shape)


def _sum_products(
    multiply: Callable[[Reals, Reals], Reals], a: Real, b: Real, terms: int, rows: Callable[[], Reals]
) -> FloatSums:
    """Returns the sums of products of a and b. rows: function that returns the products of some of the sums."""
    exactly = multiply(np.abs(a.value), np.abs(b.value))
    squares = multiply(a.value**2, b.value**2) if is_probable() else None
    if not (a.error.any() or b.error.any()):
        return FloatSums(multiply(a.value, b.value), exactly, terms, None, squares, rows)
    size = multiply(np.abs(a.value) + a.error, np.abs(b.value) + b.error)
    return FloatSums(multiply(a.value, b.value), size, terms, size - exactly, squares, rows)


def conv_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    from qverify.arithmetic.float_convolution import convolve

    w = require_real(inputs[1])
    return _convolve(convolve, read_conv_terms, node, inputs, graph, w.value[0].size)


def conv_transpose_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    from qverify.arithmetic.float_convolution import convolve_transposed

    w = require_real(inputs[1])
    terms = w.value[:, 0].size // node.words[10]
    return _convolve(convolve_transposed, read_transposed_terms, node, inputs, graph, terms)


def _convolve(
    convolution: Callable[..., Reals],
    read_terms: Callable[..., tuple[Reals, Reals, Array]],
    node: Node,
    inputs: list[BoundedValue | None],
    graph: Graph,
    terms: int,
) -> list[BoundedValue]:
    x, shape = require_real(inputs[0]), graph.spec(node.outputs[0]).shape
    planes = Real(as_planes(x.value), as_planes(x.error))
    multiply = partial(convolution, window=window_of(node.words), group=node.words[10], out=plane_shape(shape))
    weights = require_real(inputs[1])

    def rows() -> Reals:
        at = take_positions(graph.spec(node.outputs[0]).elements)
        first, second, _ = read_terms(planes.value, weights.value, node, plane_shape(shape), at)
        return first * second

    y = _sum_products(multiply, planes, weights, terms, rows)
    if inputs[2] is not None:
        bias = require_real(inputs[2])
        y = y.plus(Real(bias.value.reshape(1, -1, 1, 1), bias.error.reshape(1, -1, 1, 1)))
    return [y.bounded(shape)]


def matmul_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    alpha, beta = (float_word(w) for w in node.words[2:])
    a, b = (require_real(v) for v in inputs[:2])
    left, right = _as_rows(a, node.words[0]), _as_columns(b, node.words[1])

    def rows() -> Reals:
        lead = np.broadcast_shapes(left.value.shape[:-2], right.value.shape[:-2])
        wide, tall = (np.broadcast_to(v.value, (*lead, *v.value.shape[-2:])) for v in (left, right))
        each = (*lead, wide.shape[-2], tall.shape[-1])
        *outer, row, column = np.unravel_index(take_positions(prod(each)), each)
        return np.asarray(wide[(*outer, row)] * np.moveaxis(tall, -1, -2)[(*outer, column)])

    products = _sum_products(np.matmul, left, right, left.value.shape[-1], rows)
    y = products.scaled(alpha)
    if inputs[2] is not None:
        c = require_real(inputs[2])
        y = y.plus(Real(beta * c.value, abs(beta) * c.error))
    shape = graph.spec(node.outputs[0]).shape
    rounded = y.bounded(shape, 1.0 if alpha == 1.0 else 2.0)
    return [rounded.mark_lost_if_large(np.broadcast_to(products.size, y.value.shape).reshape(shape))]


def _as_rows(a: Real, transposed: int) -> Real:
    if a.value.ndim == 1:
        return Real(a.value[None], a.error[None])
    return Real(a.value.swapaxes(-1, -2), a.error.swapaxes(-1, -2)) if transposed else a


def _as_columns(b: Real, transposed: int) -> Real:
    if b.value.ndim == 1:
        return Real(b.value[:, None], b.error[:, None])
    return Real(b.value.swapaxes(-1, -2), b.error.swapaxes(-1, -2)) if transposed else b
