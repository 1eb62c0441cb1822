"""y = sum (x-zx)(w-zw) in int32, which wraps: 1-D and 2-D convolution; the zero points are inputs, each one number, zw
also one per output channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.arithmetic.float_convolution import convolve
from qverify.arithmetic.windows import DILATION_WORDS, WINDOW_WORDS, as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = (*WINDOW_WORDS, *DILATION_WORDS, "group")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, w, zero_x, zero_w = inputs
    assert x is not None and w is not None
    shape = graph.spec(node.outputs[0]).shape
    planes, weights = as_planes(x).astype(np.int64), w.astype(np.int64)
    if zero_x is not None:
        planes = planes - int(zero_x.reshape(()))
    if zero_w is not None:
        weights = weights - zero_w.astype(np.int64).reshape(-1, 1, 1, 1)
    out = plane_shape(shape)
    window, taps, kept = window_of(node.words).cropped(plane_shape(x.shape), out)
    acc = convolve(planes[kept], weights[taps], window, node.words[10], out)
    return (wrap_int32(acc).reshape(shape),)  # exact in float64: 2^37 products fit
