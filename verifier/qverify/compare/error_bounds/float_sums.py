"""Convolutions and matrix products of floats: exact value and error bound (NUMERICS.md section 4).

Each function named after an op takes its node, bounded inputs and graph, and returns the bounded outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from qverify.arithmetic.float_convolution import convolve, convolve_transposed
from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.compare.error_bounds.bounded_values import ROUNDOFF, TINY, Held, Real, Reals, float_word, gamma, real
from qverify.model_bin.graph import Graph, Node

EXTRA = 6  # roundings besides those of K products: of the bias, alpha, beta, their two products, one in reserve
DOUBLE = 2.0**-52  # of each float64 addition of this evaluation, twice over


@dataclass(frozen=True, slots=True)
class FloatSums:
    """Sums of `terms` products, in float64. size: of the magnitudes of their terms. moved: the part of the error that
    the terms' own errors make; None where they have none."""

    value: Reals
    size: Reals
    terms: int
    moved: Reals | None = None

    def scaled(self, factor: float) -> FloatSums:
        """Returns the sums times a factor."""
        moved = None if self.moved is None else abs(factor) * self.moved
        return replace(self, value=factor * self.value, size=abs(factor) * self.size, moved=moved)

    def plus(self, more: Real) -> FloatSums:
        """Returns the sums with one more term, which a kernel may add first or last."""
        size = self.size + np.abs(more.value) + more.error
        moved = more.error if self.moved is None else self.moved + more.error
        return replace(self, value=self.value + more.value, size=size, moved=moved if moved.any() else None)

    def bounded(self, shape: tuple[int, ...], roundings: float = 1.0) -> Real:
        """Returns the sums with the error of any float32 kernel, and that of qverify's own, which rounds the exact sum
        once; roundings: to float32, relative to the size of the terms instead of the sum if more than one."""
        error = gamma(self.terms + EXTRA) * self.size + (self.terms + 2) * TINY
        own = ROUNDOFF * (np.abs(self.value) + (roundings - 1) * self.size) + DOUBLE * self.terms * self.size + TINY
        whole = np.broadcast_to(error if self.moved is None else self.moved + error, self.value.shape)
        y = Real(self.value, whole, None if self.moved is not None else np.broadcast_to(own, whole.shape))
        return y.losing_large(self.size).shaped(shape)


def _summed(multiply: Callable[[Reals, Reals], Reals], a: Real, b: Real, terms: int) -> FloatSums:
    """Returns the sums of products of a and b."""
    exactly = multiply(np.abs(a.value), np.abs(b.value))
    if not (a.error.any() or b.error.any()):
        return FloatSums(multiply(a.value, b.value), exactly, terms)
    size = multiply(np.abs(a.value) + a.error, np.abs(b.value) + b.error)
    return FloatSums(multiply(a.value, b.value), size, terms, size - exactly)


def conv_float(node: Node, inputs: list[Held | None], graph: Graph) -> list[Held]:
    w = real(inputs[1])
    return _convolution(convolve, node, inputs, graph, w.value[0].size)


def conv_transpose_float(node: Node, inputs: list[Held | None], graph: Graph) -> list[Held]:
    w = real(inputs[1])
    return _convolution(convolve_transposed, node, inputs, graph, w.value[:, 0].size // node.words[10])


def _convolution(
    of: Callable[..., Reals], node: Node, inputs: list[Held | None], graph: Graph, terms: int
) -> list[Held]:
    x, shape = real(inputs[0]), graph.spec(node.outputs[0]).shape
    planes = Real(as_planes(x.value), as_planes(x.error))
    multiply = partial(of, window=window_of(node.words), group=node.words[10], out=plane_shape(shape))
    y = _summed(multiply, planes, real(inputs[1]), terms)
    if inputs[2] is not None:
        bias = real(inputs[2])
        y = y.plus(Real(bias.value.reshape(1, -1, 1, 1), bias.error.reshape(1, -1, 1, 1)))
    return [y.bounded(shape)]


def matmul_float(node: Node, inputs: list[Held | None], graph: Graph) -> list[Held]:
    alpha, beta = (float_word(w) for w in node.words[2:])
    a, b = (real(v) for v in inputs[:2])
    left, right = _row(a, node.words[0]), _column(b, node.words[1])
    products = _summed(np.matmul, left, right, left.value.shape[-1])
    y = products.scaled(alpha)
    if inputs[2] is not None:
        c = real(inputs[2])
        y = y.plus(Real(beta * c.value, abs(beta) * c.error))
    shape = graph.spec(node.outputs[0]).shape
    made = y.bounded(shape, 1.0 if alpha == 1.0 else 2.0)
    return [made.losing_large(np.broadcast_to(products.size, y.value.shape).reshape(shape))]


def _row(a: Real, transposed: int) -> Real:
    if a.value.ndim == 1:
        return Real(a.value[None], a.error[None])
    return Real(a.value.swapaxes(-1, -2), a.error.swapaxes(-1, -2)) if transposed else a


def _column(b: Real, transposed: int) -> Real:
    if b.value.ndim == 1:
        return Real(b.value[:, None], b.error[:, None])
    return Real(b.value.swapaxes(-1, -2), b.error.swapaxes(-1, -2)) if transposed else b
