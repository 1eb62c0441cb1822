"""y[i] = x[i, with the index there instead of i's own along axis] (NUMERICS.md, gather_elements)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, indices, axis = inputs[0], inputs[1], node.words[0]
    assert x is not None and indices is not None
    return (np.array(x[index_elements(indices, x.shape, axis)]),)


def index_elements(indices: Array, shape: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """Returns the index of each element in an array of this shape, for every dim. Raises ValueError for one outside."""
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = count_from_start(indices, shape[axis])
    return tuple(grid)


def count_from_start(indices: Array, size: int) -> Array:
    """Returns the indices with negative ones counted from the end. Raises ValueError for one outside."""
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise ValueError(f"index outside -{size}..{size - 1}")
    return np.asarray(np.where(indices < 0, indices + size, indices))
