"""y = T[x - qmin(x)]: any function of one 8-bit or 16-bit tensor, its table filled by the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.tables import Table
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def prepare(node: Node, graph: Graph) -> Table:
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    lowest = int(np.iinfo(str(x.numpy_dtype)).min)
    return Table.of(np.roll(graph.constants[node.inputs[1] or ""], lowest), y.elements)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: Table | None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    table = prepare(node, graph) if state is None else state
    index = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
    return (table.look_up(index).reshape(y.shape),)
