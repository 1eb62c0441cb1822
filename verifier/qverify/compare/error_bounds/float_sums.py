"""Convolutions and matrix products of floats: exact value and error bound (NUMERICS.md section 4).

Each function named after an op takes its node, bounded inputs and graph, and returns the bounded outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from qverify.arithmetic.float_convolution import convolve, convolve_transposed
from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.compare.error_bounds.bounded_values import TINY, Held, Real, Reals, float_word, gamma, real
from qverify.model_bin.graph import Graph, Node

EXTRA = 5  # roundings besides the sum's: of alpha, beta, their two products, one in reserve


def _summed(multiply: Callable[[Reals, Reals], Reals], a: Real, b: Real, terms: int) -> Real:
    """Returns the sums of products of a and b, as any float32 kernel may compute them."""
    value = multiply(a.value, b.value)
    exactly = multiply(np.abs(a.value), np.abs(b.value))
    moved = a.error.any() or b.error.any()
    size = multiply(np.abs(a.value) + a.error, np.abs(b.value) + b.error) if moved else exactly
    return Real(value, (size - exactly) + gamma(terms + EXTRA) * size + (terms + 1) * TINY, size)


def _plus(sums: Real, more: Real, terms: int) -> Real:
    """Returns the sums with one more term, which a kernel may add first or last."""
    size = np.abs(more.value) + more.error
    error = sums.error + more.error + gamma(terms + EXTRA) * size
    return Real(sums.value + more.value, error, None if sums.size is None else sums.size + size)


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
    y = _summed(multiply, planes, real(inputs[1]), terms + 1)
    if inputs[2] is not None:
        bias = real(inputs[2])
        y = _plus(y, Real(*(v.reshape(1, -1, 1, 1) for v in (bias.value, bias.error))), terms + 1)
    return [_shaped(y, shape)]


def matmul_float(node: Node, inputs: list[Held | None], graph: Graph) -> list[Held]:
    alpha, beta = (float_word(w) for w in node.words[2:])
    a, b = (real(v) for v in inputs[:2])
    left, right = _row(a, node.words[0]), _column(b, node.words[1])
    terms = left.value.shape[-1] + 1
    y = _summed(np.matmul, left, right, terms)
    y = Real(alpha * y.value, abs(alpha) * y.error, None if y.size is None else abs(alpha) * y.size)
    if inputs[2] is not None:
        c = real(inputs[2])
        y = _plus(y, Real(beta * c.value, abs(beta) * c.error), terms)
    return [_shaped(y, graph.spec(node.outputs[0]).shape)]


def _shaped(y: Real, shape: tuple[int, ...]) -> Real:
    size = None if y.size is None else np.broadcast_to(y.size, y.value.shape).reshape(shape)
    return Real(y.value.reshape(shape), y.error.reshape(shape), size)


def _row(a: Real, transposed: int) -> Real:
    if a.value.ndim == 1:
        return Real(a.value[None], a.error[None])
    return Real(a.value.swapaxes(-1, -2), a.error.swapaxes(-1, -2)) if transposed else a


def _column(b: Real, transposed: int) -> Real:
    if b.value.ndim == 1:
        return Real(b.value[:, None], b.error[:, None])
    return Real(b.value.swapaxes(-1, -2), b.error.swapaxes(-1, -2)) if transposed else b
