"""y = fl32(x / |row|_p), the norm a sequential float64 sum; 0 where the norm is 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import sequential_sum
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("outer", "depth", "inner", "p")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    assert inputs[0] is not None
    rows = inputs[0].reshape(node.words[:3]).astype(np.float64)
    with np.errstate(all="ignore"):
        norm = sequential_sum(np.abs(rows), 1) if node.words[3] == 1 else np.sqrt(sequential_sum(rows * rows, 1))
        y = np.where(norm == 0, 0.0, rows / norm)
    return (y.astype(np.float32).reshape(graph.spec(node.outputs[0]).shape),)
