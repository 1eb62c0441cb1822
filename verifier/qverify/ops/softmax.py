"""e_j = T[q_j - max + 255]; y = clip(RNE(fl32(fl32(e_j*ys)/sum)) + zy), sum sequential in float32. T of [257]: each e_j
times fl32(T[256]/sum), half up; T of integers: in fixed point; of int16: with a reciprocal in segments."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import softmax_in_segments
from qverify.arithmetic.float32 import sequential_sum
from qverify.arithmetic.softmax_fixed_point import divide_terms
from qverify.arithmetic.tables import look_up
from qverify.arithmetic.workers import run_blocks, split_range
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
SIXTEEN = softmax_in_segments.DIFFERENCES  # entries of a table of int16 before the ends of segments
BLOCK = 1 << 17  # elements of a block that stay in a second-level cache
WORDS = ("outer", "depth", "inner", "ys_f32")


def prepare(node: Node, graph: Graph) -> np.float32:
    from qverify.ops import float_word

    return float_word(node.words[3])


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: np.float32) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    table, limits = graph.constants[node.inputs[1] or ""], np.iinfo(y.dtype)
    rows, result = x.reshape(node.words[:3]), np.empty(node.words[:3], y.dtype)

    def block_of_int16(some: slice) -> None:
        below = rows[some].astype(np.int64) - rows[some].max(1, keepdims=True)
        e, ends = table[below + SIXTEEN - 1], table[SIXTEEN:]
        made = softmax_in_segments.divide_terms(e, ends, 1) + y.zero_point[0]
        result[some] = np.clip(made, limits.min, limits.max).astype(y.dtype)

    def block(some: slice) -> None:
        below = rows[some].view(np.uint8) - rows[some].max(1, keepdims=True).view(np.uint8)
        e = look_up(table[:256], below + np.uint8(255))  # differences are at most 0: the sum wraps back into 8 bits
        if table.dtype == np.int32:
            result[some] = np.clip(divide_terms(e, 1) + y.zero_point[0], limits.min, limits.max).astype(y.dtype)
            return
        total = sequential_sum(e, 1)
        if len(table) > 256:
            e *= table[256] / total
            e += np.float32(0.5)
            np.floor(e, out=e)
            e[np.isnan(e)] = limits.min - y.zero_point[0]
        else:
            e *= state
            e /= total
            np.rint(e, out=e)
        e += y.zero_point[0]
        np.clip(e, limits.min, limits.max, out=e)
        result[some] = e.astype(y.dtype)

    compute = block_of_int16 if table.dtype == np.int16 else block
    run_blocks(
        [partial(compute, some) for some in split_range(len(rows), BLOCK // max(1, rows.shape[1] * rows.shape[2]))]
    )
    return (result.reshape(y.shape),)
