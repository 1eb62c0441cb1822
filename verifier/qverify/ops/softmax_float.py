"""y = fl32(e_j / sum e), e_j = exp64(x_j - max), sum sequential in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import exp64, sequential_sum
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("outer", "depth", "inner")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    assert inputs[0] is not None
    rows = inputs[0].reshape(node.words).astype(np.float64)
    e = exp64(rows - rows.max(1, keepdims=True))
    return ((e / sequential_sum(e, 1)).astype(np.float32).reshape(graph.spec(node.outputs[0]).shape),)
