"""y = T[x - qmin(x)]: any function of one 8-bit or 16-bit tensor, its table filled by the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.tables import look_up
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    table = graph.constants[node.inputs[1] or ""]
    lowest = int(np.iinfo(x.dtype).min)
    index = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
    return (look_up(np.roll(table, lowest), index).reshape(y.shape),)
