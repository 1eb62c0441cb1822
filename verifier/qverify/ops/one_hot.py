"""y = values[1] where the position along axis is the index, values[0] elsewhere (NUMERICS.md, one_hot)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    indices, values, axis, y = inputs[0], inputs[1], node.words[0], graph.spec(node.outputs[0])
    assert indices is not None and values is not None
    depth = y.shape[axis]
    position = np.arange(depth).reshape(-1, *[1] * (len(y.shape) - 1 - axis))
    index = np.expand_dims(indices.astype(np.int64), axis)
    off, on = values.reshape(2)
    return (np.where((index == position) | (index + depth == position), on, off).astype(y.dtype),)
