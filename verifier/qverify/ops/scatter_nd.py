"""y = x with updates at index tuples, one after the other (NUMERICS.md, scatter_nd)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops.gather_nd import split_index_tuples

Array = npt.NDArray[Any]
WORDS = ("reduction",)
REDUCTIONS = ("none", "add", "mul", "max", "min")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, indices, updates = inputs
    assert x is not None and indices is not None and updates is not None
    return (scatter(x, split_index_tuples(indices, x.shape), updates, node.words[0]),)


def scatter(x: Array, at: tuple[Array, ...], updates: Array, reduction: int) -> Array:
    """Returns x with the updates applied in row-major order of the indices. at: indices, one array per dim, which
    broadcast against each other. Further dims of x are updated together."""
    y, shape = x.copy(), np.broadcast_shapes(*(a.shape for a in at))
    if not reduction:
        y[at] = updates  # of several updates with the same index, numpy keeps the last
        return y
    rows = updates.reshape(-1, *updates.shape[len(shape) :])
    columns = [np.broadcast_to(a, shape).reshape(-1).tolist() for a in at]
    for row, place in zip(rows, zip(*columns, strict=True), strict=True):
        y[place] = _combine(y[place], row, REDUCTIONS[reduction])
    return y


def _combine(old: Array, new: Array, reduction: str) -> Array:
    """Returns the new value of an element, given its old value and an update."""
    with np.errstate(all="ignore"):
        if reduction == "add":
            return old + new
        if reduction == "mul":
            return old * new
        if reduction == "max":
            return np.where(new > old, new, old)
        return np.where(new < old, new, old) if reduction == "min" else new
