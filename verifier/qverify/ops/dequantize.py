"""y = fl32(fl32(q-z)*s), per tensor or per channel."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.arithmetic.workers import run_blocks, split_range
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import parameters

Array = npt.NDArray[Any]
BLOCK = 1 << 17  # elements of a block
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    scale, zero_point = parameters(graph.spec(node.inputs[0] or ""))
    if x.size <= BLOCK or scale.size > 1 or zero_point.size > 1:
        return (float32.dequantize(x, scale, zero_point),)
    flat, y = x.reshape(-1), np.empty(x.shape, np.float32)
    each, scale, zero_point = y.reshape(-1), scale.reshape(-1), zero_point.reshape(-1)

    def block(part: slice) -> None:
        each[part] = float32.dequantize(flat[part], scale, zero_point)

    run_blocks([partial(block, part) for part in split_range(x.size, BLOCK)])
    return (y,)
