"""y[i0, i1, ...] = x[index0[i0], index1[i1], ...]."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    index, at, per_dim = inputs[1], 0, []
    assert index is not None
    for size in y.shape:
        per_dim.append(index[at : at + size])
        at += size
    for axis, picked in enumerate(per_dim):
        if x.shape[axis] != len(picked) or (picked != np.arange(len(picked))).any():
            x = x.take(picked, axis)
    return (x,)
