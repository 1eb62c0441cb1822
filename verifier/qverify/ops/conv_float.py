"""y = fl32(b + sum x*w), the exact sum rounded once: 1-D and 2-D convolution of floats, groups, dilation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float_convolution import convolve, terms
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
    planes, near = as_planes(x)[kept], w[taps]
    total = convolve(planes, near, window, group, plane_shape(shape))
    total[:, _not_finite(w) > _not_finite(near)] = np.nan  # 0 by infinity, at a tap that reads padding only
    size = sizes(node, inputs, plane_shape(shape))
    products = partial(terms, planes, near, window, group, total.shape)
    return (rounded(total, size, w[0].size, b, products).reshape(shape),)


def _not_finite(w: Array) -> Array:
    """Returns of w [O, ...] how many elements of each output channel are NaN or infinite."""
    return np.count_nonzero(~np.isfinite(w), (1, 2, 3))


def sizes(node: Node, inputs: list[Array | None], out: tuple[int, int]) -> Array:
    """Returns, as [N, O, *out], at least the sum of the magnitudes of each element's products: the norm of its weights
    times that of its inputs."""
    assert inputs[0] is not None and inputs[1] is not None
    group, weights = node.words[10], inputs[1].reshape(len(inputs[1]), -1)
    window, _, kept = window_of(node.words).cropped(plane_shape(inputs[0].shape), out)
    squares = grouped_squares(inputs[0], group)[kept]
    return norm_products(weights, convolve(squares, np.ones((group, 1, *window.kernel)), window, group, out))


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns at least the largest sum of magnitudes of an output's terms."""
    size = sizes(node, inputs, plane_shape(graph.spec(node.outputs[0]).shape))
    return float(size.max() + (0.0 if inputs[2] is None else np.abs(inputs[2]).max()))


def grouped_squares(x: Array, group: int) -> Array:
    """Returns the sums of squares [N, group, H, W], float64, of each group's channels of x."""
    planes = as_planes(x)
    return (planes.astype(np.float64) ** 2).reshape(len(planes), group, -1, *planes.shape[2:]).sum(2)


def norm_products(weights: Array, seen: Array) -> Array:
    """Returns [N, O, h, w]: the norms of the rows of weights [O, K] times the square roots of seen [N, group, h, w]."""
    norms = np.sqrt((weights.astype(np.float64) ** 2).sum(1)).reshape(1, seen.shape[1], -1, 1, 1)
    with np.errstate(invalid="ignore"):  # infinities among the inputs
        size: Array = norms * np.sqrt(np.maximum(seen, 0.0))[:, :, None]
    return size.reshape(len(seen), -1, *seen.shape[2:])


def rounded(total: Array, size: Array, count: int, bias: Array | None, products: TermsOfElements) -> Array:
    """Returns the exact sums rounded once. total: [N, O, h, w], float64 sums without bias. size: as `sizes`. count: of
    the products of a sum. products: of flat positions, the products."""
    if bias is None:
        return round_once(total, sum_bound(count, size), products)
    along = bias.astype(np.float64).reshape(1, -1, 1, 1)

    def with_bias(at: Array) -> Array:
        channel = np.unravel_index(at, total.shape)[1]
        return np.column_stack([products(at), along.reshape(-1)[channel]])

    return round_once(total + along, sum_bound(count + 1, size + np.abs(along)), with_bias)
