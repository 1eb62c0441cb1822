"""y = fl32(fl32(q-z)*s), per tensor or per channel."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import parameters

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    assert inputs[0] is not None
    return (float32.dequantize(inputs[0], *parameters(graph.spec(node.inputs[0] or ""))),)
