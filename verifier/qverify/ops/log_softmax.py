"""y = fl32((x_j - max) - log64(sum exp64(x_i - max))), sum sequential in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import exp64, log64, sequential_sum
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("outer", "depth", "inner")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    assert inputs[0] is not None
    rows = inputs[0].reshape(node.words).astype(np.float64)
    with np.errstate(all="ignore"):
        below = rows - rows.max(1, keepdims=True)
        y = below - log64(sequential_sum(exp64(below), 1))
    return (y.astype(np.float32).reshape(graph.spec(node.outputs[0]).shape),)
