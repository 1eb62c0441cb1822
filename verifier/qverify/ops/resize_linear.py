"""y = ((dx2*dy2*X11 + dx1*dy2*X21) + dx2*dy1*X12) + dx1*dy1*X22, every step in float32, weights multiplied first."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.arithmetic.workers import run_blocks, runs
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import parameters
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
BLOCK = 1 << 16  # elements that stay in a second-level cache
WORDS = ("truncate",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, index, weights_yx = inputs
    spec, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    assert x is not None and index is not None and weights_yx is not None
    rows, columns = y.shape[-2:]
    cuts = [rows, 2 * rows, 2 * rows + columns]
    row1, row2, column1, column2 = np.split(index, cuts)
    dy2, dy1, dx2, dx1 = np.split(weights_yx, cuts)
    if spec.dtype == "float32" or node.words[0]:
        real = x.astype(np.float32)
    else:
        real = float32.dequantize(x, *parameters(spec))
    weights = [dx * dy[:, None] for dy in (dy2, dy1) for dx in (dx2, dx1)]
    left, right = (real[..., columns_].reshape(-1, real.shape[-2], columns) for columns_ in (column1, column2))
    result = np.empty((len(left), rows, columns), y.dtype)

    def block(planes: slice) -> None:
        value = weights[0] * left[planes, row1]
        for weight, side, row in zip(weights[1:], (right, left, right), (row1, row2, row2), strict=True):
            value += weight * side[planes, row]
        result[planes] = _stored(value, node.words[0] != 0, y)

    run_blocks([partial(block, planes) for planes in runs(len(left), BLOCK // (rows * columns))])
    return (result.reshape(y.shape),)


def _stored(value: Array, truncate: bool, y: TensorSpec) -> Array:
    if y.dtype == "float32":
        return value
    if truncate:
        return np.trunc(value).astype(y.dtype)
    return float32.quantize(value, *parameters(y), y.dtype)
