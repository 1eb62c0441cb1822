"""y = cond ? a : b. An operand with another scale or zero point than y is requantized."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import as_quantized

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    cond, y = inputs[0], graph.spec(node.outputs[0])
    assert cond is not None
    a, b = (
        as_quantized(x, graph.spec(n), y)
        for x, n in zip(inputs[1:], node.inputs[1:], strict=True)
        if x is not None and n is not None
    )
    return (np.where(cond, a, b).astype(y.numpy_dtype),)
