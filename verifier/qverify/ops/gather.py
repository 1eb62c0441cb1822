"""y = x at indices along axis; negative indices count from the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    indices = inputs[1]
    assert indices is not None
    size = x.shape[node.words[0]]
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise ValueError(f"{node.name}: index outside -{size}..{size - 1}")
    return (x.take(np.where(indices < 0, indices + size, indices), node.words[0]).reshape(y.shape),)
