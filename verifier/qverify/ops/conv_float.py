"""y = fl32(b + sum x*w), the exact sum rounded once: 1-D and 2-D convolution of floats, groups, dilation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float_convolution import convolve, list_terms
from qverify.arithmetic.float_sums import TermsOfElements, round_once, sum_bound
from qverify.arithmetic.windows import DILATION_WORDS, WINDOW_WORDS, as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (*WINDOW_WORDS, *DILATION_WORDS, "group")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, w, b = inputs
    assert x is not None and w is not None
    shape, group = graph.spec(node.outputs[0]).shape, node.words[10]
    window, taps, kept = window_of(node.words).cropped(plane_shape(x.shape), plane_shape(shape))
    planes, kept_weights = as_planes(x)[kept], w[taps]
    total = convolve(planes, kept_weights, window, group, plane_shape(shape))
    total[:, _count_not_finite(w) > _count_not_finite(kept_weights)] = (
        np.nan
    )  # 0 times infinity, at a tap that reads only padding
    size = bound_sizes(node, inputs, plane_shape(shape))
    products = partial(list_terms, planes, kept_weights, window, group, total.shape)
    return (round_sums(total, size, w[0].size, b, products).reshape(shape),)


def _count_not_finite(w: Array) -> Array:
    """Returns the number of elements of w [O, ...] that are NaN or infinite, for each output channel."""
    return np.count_nonzero(~np.isfinite(w), (1, 2, 3))


def bound_sizes(node: Node, inputs: list[Array | None], out: tuple[int, int]) -> Array:
    """Returns upper bounds [N, O, *out] of the sums of the magnitudes of each element's products: the norm of its
    weights times the norm of its inputs."""
    assert inputs[0] is not None and inputs[1] is not None
    group, weights = node.words[10], inputs[1].reshape(len(inputs[1]), -1)
    window, _, kept = window_of(node.words).cropped(plane_shape(inputs[0].shape), out)
    squares = sum_group_squares(inputs[0], group)[kept]
    return norm_products(weights, convolve(squares, np.ones((group, 1, *window.kernel)), window, group, out))


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns an upper bound of the sums of the magnitudes of an output's terms."""
    size = bound_sizes(node, inputs, plane_shape(graph.spec(node.outputs[0]).shape))
    return float(size.max() + (0.0 if inputs[2] is None else np.abs(inputs[2]).max()))


def sum_group_squares(x: Array, group: int) -> Array:
    """Returns the sums of squares over the channels of each group of x, float64 [N, group, H, W]."""
    planes = as_planes(x)
    return (planes.astype(np.float64) ** 2).reshape(len(planes), group, -1, *planes.shape[2:]).sum(2)


def norm_products(weights: Array, squares: Array) -> Array:
    """Returns [N, O, h, w]: the norms of the rows of weights [O, K] times the square roots of seen [N, group, h, w]."""
    norms = np.sqrt((weights.astype(np.float64) ** 2).sum(1)).reshape(1, squares.shape[1], -1, 1, 1)
    with np.errstate(invalid="ignore"):  # infinities among the inputs
        size: Array = norms * np.sqrt(np.maximum(squares, 0.0))[:, :, None]
    return size.reshape(len(squares), -1, *squares.shape[2:])


def round_sums(total: Array, size: Array, count: int, bias: Array | None, products: TermsOfElements) -> Array:
    """Returns the exact sums, rounded once.

    Args:
        total: float64 sums without bias, [N, O, h, w].
        size: upper bounds of the sums of magnitudes, as bound_sizes() returns them.
        count: number of products of one sum.
        bias: [O], or None.
        products: function that returns the products of the sums at flat positions.
    """
    if bias is None:
        return round_once(total, sum_bound(count, size), products)
    along = bias.astype(np.float64).reshape(1, -1, 1, 1)

    def with_bias(at: Array) -> Array:
        channel = np.unravel_index(at, total.shape)[1]
        return np.column_stack([products(at), along.reshape(-1)[channel]])

    return round_once(total + along, sum_bound(count + 1, size + np.abs(along)), with_bias)
