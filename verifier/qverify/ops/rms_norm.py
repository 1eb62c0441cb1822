"""y = fl32(x/sqrt(mean(x*x)+eps)*gamma) over the last elements; sequential float64 sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import sequential_sum
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
WORDS = ("depth", "eps_f32")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    with np.errstate(all="ignore"):
        rows = x.reshape(-1, node.words[0]).astype(np.float64)
        squares = sequential_sum(rows * rows, 1) / float(node.words[0])
        y = rows / np.sqrt(squares + float(float_word(node.words[1])))
        if inputs[1] is not None:
            y = y * inputs[1].reshape(-1).astype(np.float64)
        return (y.astype(np.float32).reshape(x.shape),)
