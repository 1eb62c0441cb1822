"""y = the inputs, concatenated along axis. An input with another scale or zero point than y is dequantized and
quantized again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import as_quantized

Array = npt.NDArray[Any]
WORDS = ("axis",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    y = graph.spec(node.outputs[0])
    parts = [
        as_quantized(x, graph.spec(n), y)
        for x, n in zip(inputs, node.inputs, strict=True)
        if x is not None and n is not None
    ]
    return (np.concatenate(parts, node.words[0]),)
