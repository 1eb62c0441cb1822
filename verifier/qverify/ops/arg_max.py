"""y = index of the first (or last) maximum along axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis", "select_last")


def prepare(node: Node, graph: Graph) -> None:
    return None


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    axis, last = node.words
    if last:
        return ((x.shape[axis] - 1 - np.flip(x, axis).argmax(axis)).reshape(y.shape).astype(np.int64),)
    return (x.argmax(axis).reshape(y.shape).astype(np.int64),)
