"""y = max of x over the valid taps; equal quantization on both sides."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import DILATION_WORDS, WINDOW_WORDS, Window, as_planes, plane_shape, window_of
from qverify.arithmetic.workers import run_blocks, split_range
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
BLOCK = 1 << 16  # elements of a block that stay in a second-level cache
WORDS = (*WINDOW_WORDS, *DILATION_WORDS)


def prepare(node: Node, graph: Graph) -> Window:
    return window_of(node.words)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Window) -> tuple[Array, ...]:
    y = graph.spec(node.outputs[0])
    assert inputs[0] is not None
    x, out = as_planes(inputs[0]), plane_shape(y.shape)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    best = np.full((*x.shape[:2], *out), lowest, x.dtype)
    direct = x.dtype.kind != "f" and state.reads_directly(plane_shape(x.shape), out)

    def block(channels: slice) -> None:
        part, read = best[:, channels], x[:, channels]
        if direct:
            _take_maxima(state, state.padded(read, out, lowest), part)
            return
        for tap in state.reads(read, out, lowest):
            if x.dtype.kind != "f":
                np.maximum(part, tap, out=part)
            else:  # the first of equal elements, such as zeros with different signs
                np.copyto(part, tap, where=(tap > part) | (tap != tap))

    run_blocks(
        [
            partial(block, channels)
            for channels in split_range(x.shape[1], BLOCK // max(1, x.size // max(1, x.shape[1])))
        ]
    )
    return (best.reshape(y.shape),)


def _take_maxima(window: Window, padded: Array, best: Array) -> None:
    """Replaces the elements of best [N, C, oh, ow] by larger ones of their windows: first the largest of each column of
    a window, which are contiguous in memory, then the largest of these."""
    (height, width), (stride_h, stride_w), (dilation_h, dilation_w) = best.shape[2:], window.stride, window.dilation
    rows = None
    for i in range(0, window.kernel[0] * dilation_h, dilation_h):
        read = padded[:, :, i : i + (height - 1) * stride_h + 1 : stride_h]
        rows = np.array(read) if rows is None else np.maximum(rows, read, out=rows)
    assert rows is not None
    for j in range(0, window.kernel[1] * dilation_w, dilation_w):
        np.maximum(best, rows[..., j : j + (width - 1) * stride_w + 1 : stride_w], out=best)
