"""y = index of the first (or last) maximum along axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis", "select_last")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    return (find_best(node, inputs, graph, np.greater_equal if node.words[1] else np.greater),)


def find_best(node: Node, inputs: list[Array | None], graph: Graph, better: np.ufunc) -> Array:
    """Returns the index of the best element along the axis. better: compares a later element with the best one so
    far."""
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    axis = node.words[0]
    planes = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    best, index = planes[0].copy(), np.zeros(planes.shape[1:], np.int64)
    for i, plane in enumerate(planes[1:], 1):
        replaced = better(plane, best)
        np.copyto(best, plane, where=replaced)
        np.copyto(index, i, where=replaced)
    return index.reshape(y.shape)
