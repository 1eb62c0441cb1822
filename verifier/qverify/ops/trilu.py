"""y = x on one side of a diagonal of its last two dims, 0 on the other (NUMERICS.md, trilu)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("diagonal", "upper")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, (diagonal, upper) = inputs[0], node.words
    assert x is not None
    right = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    return (np.where(right >= diagonal if upper else right <= diagonal, x, np.zeros((), x.dtype)),)
