"""y = index of the first (or last) maximum along axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis", "select_last")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    axis, last = node.words
    planes = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    best, index = np.array(planes[0]), np.zeros(planes.shape[1:], np.int64)
    for i, plane in enumerate(planes[1:], 1):
        better = plane >= best if last else plane > best
        np.copyto(best, plane, where=better)
        np.copyto(index, i, where=better)
    return (index.reshape(y.shape),)
