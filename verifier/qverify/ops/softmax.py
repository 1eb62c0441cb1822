"""e_j = T[q_j - max + 255]; y = clip(RNE(fl32(fl32(e_j*ys)/sum)) + zy), sum sequential in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import sequential_sum
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("outer", "depth", "inner", "ys_f32")


def prepare(node: Node, graph: Graph) -> np.float32:
    from qverify.ops import float_word

    return float_word(node.words[3])


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: np.float32) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    rows = x.reshape(node.words[:3]).astype(np.int64)
    e = graph.constants[node.inputs[1] or ""][rows - rows.max(1, keepdims=True) + 255]
    value = np.rint((e * state) / sequential_sum(e, 1))
    limits = np.iinfo(y.dtype)
    return (np.clip(value + y.zero_point[0], limits.min, limits.max).astype(y.dtype).reshape(y.shape),)
