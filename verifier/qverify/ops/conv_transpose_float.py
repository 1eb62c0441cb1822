"""y = fl32(b + sum x*w), the exact sum rounded once, at input*stride - pad + tap*dilation: transposed convolution of
floats."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float_convolution import convolve_transposed, list_transposed_terms
from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node
from qverify.ops.conv_float import WORDS as WORDS
from qverify.ops.conv_float import norm_products, round_sums, sum_group_squares

Array = npt.NDArray[Any]


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, w, b = inputs
    assert x is not None and w is not None
    planes, window, group = as_planes(x), window_of(node.words), node.words[10]
    shape = graph.spec(node.outputs[0]).shape
    total = convolve_transposed(planes, w, window, group, plane_shape(shape))
    size = bound_sizes(node, inputs, plane_shape(shape))
    products = partial(list_transposed_terms, planes, w, window, group, total.shape)
    return (round_sums(total, size, w[:, 0].size // group, b, products).reshape(shape),)


def bound_sizes(node: Node, inputs: list[Array | None], out: tuple[int, int]) -> Array:
    """Returns upper bounds of the sums of magnitudes, as conv_float.bound_sizes() does."""
    x, w, _ = inputs
    assert x is not None and w is not None
    group, ones = node.words[10], np.ones((node.words[10], 1, *node.words[:2]))
    weights = w.reshape(group, len(w) // group, w.shape[1], -1).transpose(0, 2, 1, 3).reshape(group * w.shape[1], -1)
    return norm_products(
        weights, convolve_transposed(sum_group_squares(x, group), ones, window_of(node.words), group, out)
    )


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns an upper bound of the sums of the magnitudes of an output's terms."""
    size = bound_sizes(node, inputs, plane_shape(graph.spec(node.outputs[0]).shape))
    return float(size.max() + (0.0 if inputs[2] is None else np.abs(inputs[2]).max()))
