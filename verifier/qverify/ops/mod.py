"""y = a - b * floor(a / b) on integers, b without 0: the sign of y is that of b (NUMERICS.md, mod)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    a, b, y = inputs[0], inputs[1], graph.spec(node.outputs[0])
    assert a is not None and b is not None
    if (b == 0).any():
        raise ValueError(f"{node.name}: a divisor is 0")
    with np.errstate(all="ignore"):  # the lowest integer modulo -1 overflows
        return (np.remainder(a, b).astype(y.dtype).reshape(y.shape),)
