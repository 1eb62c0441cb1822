"""y[i] = x[start + i*step] in every dim."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("start[rank]", "step[rank]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    rank = x.ndim
    index = [
        np.arange(n) * step + start
        for n, start, step in zip(y.shape, node.words[:rank], node.words[rank:], strict=True)
    ]
    return (x[np.ix_(*index)],)
