"""y = fl32((x-mean)/sqrt(var+eps)*gamma + beta) over the last elements; sequential float64 sums."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import sequential_sum
from qverify.arithmetic.workers import run_blocks, split_range
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
BLOCK = 1 << 17  # elements of a block
WORDS = ("depth", "eps_f32")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    depth, epsilon = node.words[0], float(float_word(node.words[1]))
    rows = x.reshape(-1, depth)
    y = np.empty(rows.shape, np.float32)

    def block(some: slice) -> None:
        columns = np.ascontiguousarray(rows[some].T, np.float64)  # whose sums numpy adds faster
        columns -= sequential_sum(columns, 0) / depth
        variance = sequential_sum(columns * columns, 0) / depth
        columns /= np.sqrt(variance + epsilon)
        for factor, operate in ((inputs[1], np.multiply), (inputs[2], np.add)):
            if factor is not None:
                operate(columns, factor.reshape(-1, 1).astype(np.float64), out=columns)
        y[some] = columns.T

    run_blocks([partial(block, some) for some in split_range(len(rows), BLOCK // depth)])
    return (y.reshape(x.shape),)
