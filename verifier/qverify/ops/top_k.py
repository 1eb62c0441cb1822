"""The largest or smallest elements along axis, in order, and their indices (NUMERICS.md, top_k)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis", "largest")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, (axis, largest) = inputs[0], node.words
    assert x is not None
    kept = graph.spec(node.outputs[0]).shape[axis]
    index = sort_indices(x, axis, bool(largest)).take(range(kept), axis)
    return np.take_along_axis(x, index, axis), index


def sort_indices(x: Array, axis: int, largest: bool) -> Array:
    """Returns the indices of the elements in order. Equal elements keep their order, and NaN comes after all
    numbers."""
    key = x if not largest else -x if x.dtype.kind == "f" else ~x
    return np.argsort(key, axis, kind="stable")
