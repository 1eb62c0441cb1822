"""y[i] = x[j], j being i with its component along axis replaced by indices[i] (NUMERICS.md, gather_elements)."""

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
    """Returns, for every dim, the indices of the elements in an array of this shape. Raises ValueError for an index
    outside of it."""
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = count_from_start(indices, shape[axis])
    return tuple(grid)


def count_from_start(indices: Array, size: int) -> Array:
    """Returns the indices with negative ones counted from the end. Raises ValueError for an index out of range."""
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise ValueError(f"index outside -{size}..{size - 1}")
    return np.asarray(np.where(indices < 0, indices + size, indices))
