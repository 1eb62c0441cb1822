"""y = ((dx2*dy2*X11 + dx1*dy2*X21) + dx2*dy1*X12) + dx1*dy1*X22, every step in float32, weights multiplied first;
truncate 2 and 5: in integers, of 1024ths and 2048ths; 3: each sample times its row's weight first, half up; 4: half up."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.arithmetic.workers import core_count, run_blocks, split_range
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import parameters
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
BLOCK = 1 << 16  # elements of a block that stay in a second-level cache
# Values of the word `truncate`: weights are integers, in units of 1/1024 and 1/2048; the others round half up
FIXED_POINT, IN_2048THS = 2, 5
HALF_UP, WEIGHTS_FIRST = 3, 4
HALF = 1 << 19  # stands for 1/2 in the product of two weights in 1024ths
WORDS = ("truncate",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, index, weights_yx = inputs
    spec, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    assert x is not None and index is not None and weights_yx is not None
    rows, columns = y.shape[-2:]
    cuts = [rows, 2 * rows, 2 * rows + columns]
    row1, row2, column1, column2 = np.split(index, cuts)
    dy2, dy1, dx2, dx1 = np.split(weights_yx, cuts)
    if node.words[0] in (FIXED_POINT, IN_2048THS):
        real = x.astype(np.int64)
    elif spec.dtype == "float32" or node.words[0]:
        real = x.astype(np.float32)
    else:
        real = float32.dequantize(x, *parameters(spec))
    left, right = (real.take(at, -1).reshape(-1, real.shape[-2], columns) for at in (column1, column2))
    result = np.empty((len(left), rows, columns), y.dtype)

    def block(some: slice, planes: slice) -> None:
        """Computes some rows of some planes, as many planes at once as fit the cache."""
        of_rows = (dy2[some], dy1[some])
        weights = [] if node.words[0] == HALF_UP else [dx * dy[:, None] for dy in of_rows for dx in (dx2, dx1)]
        for at in range(planes.start, planes.stop, each := max(1, BLOCK // (len(of_rows[0]) * columns))):
            part = slice(at, min(at + each, planes.stop))
            corners = (side[part].take(row[some], 1) for row in (row1, row2) for side in (left, right))
            if node.words[0] == HALF_UP:
                result[part, some] = _half_up(list(corners), of_rows, (dx2, dx1), y)
            else:
                result[part, some] = _convert(_weigh(weights, corners), node.words[0], y)

    runs = split_range(rows, BLOCK // columns)
    parts = split_range(len(left), BLOCK // (rows * columns) or -(-len(left) // core_count()))
    run_blocks([partial(block, some, planes) for some in runs for planes in parts])
    return (result.reshape(y.shape),)


def _weigh(weights: list[Array], corners: Iterable[Array]) -> Array:
    """Returns the sum of the weighted corners, added one after the other. May overwrite the corners."""
    total = None
    for weight, corner in zip(weights, corners, strict=True):
        value = np.multiply(weight, corner, out=corner) if weight.dtype == corner.dtype else weight * corner
        total = value if total is None else np.add(total, value, out=total)
    assert total is not None
    return total


def _half_up(corners: list[Array], dy: tuple[Array, Array], dx: tuple[Array, Array], y: TensorSpec) -> Array:
    """Returns the weighted sums rounded half up. corners: left and right of the upper row, then of the lower row."""
    with np.errstate(all="ignore"):
        upper_left, lower_left, upper_right, lower_right = (
            (corners[2 * row + side] * dy[row][:, None]) * dx[side] for side in (0, 1) for row in (0, 1)
        )
        value: Array = ((upper_left + lower_left) + upper_right) + lower_right + np.float32(0.5)
    return _cut_half_up(value, y)


def _cut_half_up(value: Array, y: TensorSpec) -> Array:
    """Returns values to which 1/2 was added, cut off and clipped. A NaN is the least value."""
    limits = np.iinfo(y.dtype)
    value = np.where(np.isnan(value), limits.min, value)
    return np.trunc(np.clip(value, limits.min, limits.max)).astype(y.dtype)


def _convert(value: Array, truncate: int, y: TensorSpec) -> Array:
    if y.dtype == "float32":
        return value
    if truncate == FIXED_POINT:
        limits = np.iinfo(y.dtype)
        return np.clip(np.sign(value) * ((np.abs(value) + HALF) >> 20), limits.min, limits.max).astype(y.dtype)
    if truncate == IN_2048THS:
        limits = np.iinfo(y.dtype)
        return np.clip(value + 4 * HALF >> 22, limits.min, limits.max).astype(y.dtype)
    if truncate == WEIGHTS_FIRST:
        return _cut_half_up(value + np.float32(0.5), y)
    if truncate:
        return np.trunc(value).astype(y.dtype)
    return float32.quantize(value, *parameters(y), y.dtype)
