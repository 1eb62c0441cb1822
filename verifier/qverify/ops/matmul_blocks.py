"""y = fl32(sum over blocks of (s * sw) * sum q(w-z) + bias): rows of quantize_blocks by weights in blocks (NUMERICS.md,
matmul_blocks)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.integer_blocks import block_products
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    y: Array = np.zeros(())
    with np.errstate(all="ignore"):
        for acc, scale in block_products(inputs):
            y = y + scale * acc
        bias = inputs[5]
        if bias is not None:
            y = y + bias.astype(np.float64)
        return (y.astype(np.float32).reshape(graph.spec(node.outputs[0]).shape),)


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns an upper bound of the sums of the magnitudes of an output's terms."""
    with np.errstate(all="ignore"):
        size = sum(np.abs(scale) * acc for acc, scale in block_products(inputs, magnitudes=True))
    return float(np.max(size)) + (0.0 if inputs[5] is None else float(np.abs(inputs[5]).max()))
