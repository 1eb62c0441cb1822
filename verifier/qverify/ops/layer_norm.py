"""y = fl32((x-mean)/sqrt(var+eps)*gamma + beta) over the last elements; sequential float64 sums."""

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
    rows = x.reshape(-1, node.words[0]).astype(np.float64)
    depth = float(node.words[0])
    centred = rows - sequential_sum(rows, 1) / depth
    variance = sequential_sum(centred * centred, 1) / depth
    y = centred / np.sqrt(variance + float(float_word(node.words[1])))
    for factor, operate in ((inputs[1], np.multiply), (inputs[2], np.add)):
        if factor is not None:
            y = operate(y, factor.reshape(-1).astype(np.float64))
    return (y.astype(np.float32).reshape(x.shape),)
