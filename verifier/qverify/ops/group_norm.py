"""y = fl32((x-mean)/sqrt(var+eps)*gamma + beta) over groups of channels; sequential float64 sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
WORDS = ("groups", "eps_f32")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    with np.errstate(all="ignore"):
        rows = x.reshape(x.shape[0] * node.words[0], -1).astype(np.float64)
        size = rows.shape[1]
        centred = rows - _sum(rows) / size
        variance = _sum(centred * centred) / size
        y = (centred / np.sqrt(variance + float(float_word(node.words[1])))).reshape(x.shape)
        for factor, operate in ((inputs[1], np.multiply), (inputs[2], np.add)):
            if factor is not None:
                y = operate(y, factor.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2)))
        return (y.astype(np.float32),)


def _sum(rows: Array) -> Array:
    """Returns the sum of each row, left to right, as a column."""
    total: Array = np.add.accumulate(rows, 1)[:, -1:]
    return total
