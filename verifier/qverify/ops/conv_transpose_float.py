"""y = fl32(b + sum x*w), the exact sum rounded once, at input*stride - pad + tap*dilation: transposed convolution of
floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float_convolution import convolve_transposed, transposed_terms
from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node
from qverify.ops.conv_float import WORDS as WORDS
from qverify.ops.conv_float import rounded

Array = npt.NDArray[Any]


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, w, b = inputs
    assert x is not None and w is not None
    planes, window, group = as_planes(x), window_of(node.words), node.words[10]
    shape = graph.spec(node.outputs[0]).shape
    out = plane_shape(shape)
    total = convolve_transposed(planes, w, window, group, out)
    squares = (planes.astype(np.float64) ** 2).reshape(len(planes), group, -1, *planes.shape[2:]).sum(2)
    ones = np.ones((group, 1, *window.kernel))
    seen = np.sqrt(convolve_transposed(squares, ones, window, group, out))
    weights = w.reshape(group, len(w) // group, w.shape[1], -1).transpose(0, 2, 1, 3).reshape(total.shape[1], -1)
    bias = None if b is None else b.astype(np.float64)
    products = lambda at: transposed_terms(planes, w, window, group, total.shape, at)  # noqa: E731
    return (rounded(total, seen, weights, bias, products).reshape(shape),)
