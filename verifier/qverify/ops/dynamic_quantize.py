"""y, scale, zero point: x quantized to uint8 by its own range, which includes 0 (NUMERICS.md, dynamic_quantize)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    scale, zero = float32.dynamic_parameters(x)
    with np.errstate(all="ignore"):
        y = float32.quantize(x, scale.reshape(1), np.full(1, zero), "uint8")
    outputs: tuple[Array, ...] = (y, scale, np.array(zero, np.uint8))
    return tuple(value.reshape(graph.spec(name).shape) for value, name in zip(outputs, node.outputs, strict=True))
