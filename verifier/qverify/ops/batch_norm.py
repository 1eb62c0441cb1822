"""y = fl32(fl32(x*k) + b) per channel (axis 1)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, k, b = inputs
    assert x is not None and k is not None and b is not None
    along = [1, -1] + [1] * (x.ndim - 2)
    return (x * k.reshape(along) + b.reshape(along),)
