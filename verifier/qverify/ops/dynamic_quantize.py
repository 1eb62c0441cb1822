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
    known = x[~np.isnan(x)]
    low, high = known.min(initial=np.float32(0)), known.max(initial=np.float32(0))
    with np.errstate(all="ignore"):
        scale = np.float32(1) if low == high else np.float32((high - low) / np.float32(255))
        at = -low / scale
        zero = 255 if np.isnan(at) else int(np.rint(np.clip(at, 0, 255)))
        y = float32.quantize(x, np.full(1, scale), np.full(1, zero), "uint8")
    made: tuple[Array, ...] = (y, np.array(scale, np.float32), np.array(zero, np.uint8))
    return tuple(value.reshape(graph.spec(name).shape) for value, name in zip(made, node.outputs, strict=True))
