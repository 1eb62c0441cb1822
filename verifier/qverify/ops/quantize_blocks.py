"""q, s: rows in blocks, each rounded to int8 by its largest magnitude (NUMERICS.md, quantize_blocks)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.integer_blocks import LIMIT, scaled_blocks
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    shape = graph.spec(node.outputs[0]).shape
    with np.errstate(all="ignore"):
        blocks, largest, steps = scaled_blocks(x, shape)
        rounded = np.rint(blocks * steps)
        scale = largest / LIMIT
    rounded[np.isnan(rounded)] = 0
    return rounded.astype(np.int8), scale.reshape(graph.spec(node.outputs[1]).shape)
