"""y = fl32(x / pow64(bias + alpha/size * sum of x*x over neighbouring channels, beta))."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import pow64
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
WORDS = ("size", "alpha_f32", "beta_f32", "bias_f32")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    size = node.words[0]
    alpha, beta, bias = (float(float_word(w)) for w in node.words[1:])
    real, channels = x.astype(np.float64), x.shape[1]
    total = np.empty_like(real)
    for c in range(channels):
        first, last = max(0, c - (size - 1) // 2), min(channels - 1, c + size // 2)
        row = np.zeros_like(real[:, 0])
        for k in range(first, last + 1):
            row = row + real[:, k] * real[:, k]
        total[:, c] = row
    return ((real / pow64(bias + (alpha / size) * total, beta)).astype(np.float32),)
