"""y = x with updates at the indices along axis, one after the other in row-major order (NUMERICS.md,
scatter_elements)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops.gather_elements import index_elements
from qverify.ops.scatter_nd import scatter

Array = npt.NDArray[Any]
WORDS = ("axis", "reduction")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, indices, updates = inputs
    assert x is not None and indices is not None and updates is not None
    axis, reduction = node.words
    return (scatter(x, index_elements(indices, x.shape, axis), updates, reduction),)
