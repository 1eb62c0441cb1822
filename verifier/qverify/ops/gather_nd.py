"""y = the slices of x at index tuples, in each batch (NUMERICS.md, gather_nd)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops.gather_elements import count_from_start

Array = npt.NDArray[Any]
WORDS = ("batch_dims",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, indices, y = inputs[0], inputs[1], graph.spec(node.outputs[0])
    assert x is not None and indices is not None
    return (pick_slices(x, indices, node.words[0]).reshape(y.shape),)


def pick_slices(x: Array, indices: Array, batch: int) -> Array:
    """Returns the slices of x at the index tuples. Raises ValueError for an index out of range."""
    batches = int(np.prod(x.shape[:batch]))
    inside = x.reshape(batches, *x.shape[batch:])
    tuples = indices.reshape(batches, -1, indices.shape[-1])
    return np.asarray(inside[(np.arange(batches)[:, None], *split_index_tuples(tuples, inside.shape[1:]))])


def split_index_tuples(tuples: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Returns the tuples in the last dim as indices of an array of this shape, one array per dim. Raises ValueError for
    an index out of range."""
    return tuple(count_from_start(tuples[..., k], shape[k]) for k in range(tuples.shape[-1]))
