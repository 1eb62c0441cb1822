"""y0, y1, ... = x cut along axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, at = inputs[0], 0
    assert x is not None
    parts = []
    for name in node.outputs:
        size = graph.spec(name).shape[node.words[0]]
        parts.append(np.ascontiguousarray(x.take(range(at, at + size), node.words[0])))
        at += size
    return tuple(parts)
