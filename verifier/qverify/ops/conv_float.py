"""y = fl32(b + sum x*w), the exact sum rounded once: 1-D and 2-D convolution of floats, groups, dilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float_convolution import convolve, terms
from qverify.arithmetic.float_sums import round_once, sum_bound
from qverify.arithmetic.windows import DILATION_WORDS, WINDOW_WORDS, as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (*WINDOW_WORDS, *DILATION_WORDS, "group")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, w, b = inputs
    assert x is not None and w is not None
    planes, window, group = as_planes(x), window_of(node.words), node.words[10]
    shape = graph.spec(node.outputs[0]).shape
    out = plane_shape(shape)
    total = convolve(planes, w, window, group, out)
    bias = None if b is None else b.astype(np.float64)
    squares = (planes.astype(np.float64) ** 2).reshape(len(planes), group, -1, *planes.shape[2:]).sum(2)
    ones = np.ones((group, 1, *window.kernel))
    seen = np.sqrt(np.maximum(convolve(squares, ones, window, group, out), 0.0))
    return (
        rounded(
            total, seen, w.reshape(len(w), -1), bias, lambda at: terms(planes, w, window, group, total.shape, at)
        ).reshape(shape),
    )


def rounded(total: Array, seen: Array, weights: Array, bias: Array | None, products: Any) -> Array:
    """Returns the exact sums rounded once. total: [N, O, h, w], sums without bias. seen: [N, group, h, w], the norm of
    the inputs of each sum; weights: [O, K], those of each channel. products: of flat positions, the terms."""
    norms = np.sqrt((weights.astype(np.float64) ** 2).sum(1)).reshape(1, seen.shape[1], -1, 1, 1)
    size = (norms * seen[:, :, None]).reshape(total.shape)
    if bias is None:
        return round_once(total, sum_bound(weights.shape[1], size), products)
    along = bias.reshape(1, -1, 1, 1)

    def with_bias(at: Array) -> Array:
        channel = np.unravel_index(at, total.shape)[1]
        return np.column_stack([products(at), bias[channel]])

    return round_once(total + along, sum_bound(weights.shape[1] + 1, size + np.abs(along)), with_bias)
