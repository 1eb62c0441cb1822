"""y = fl32(fl32(acc) * fl32(sa * sb)) + bias, acc that of matmul_integer; all scales and zero points are inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops.matmul_integer import sum_products

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    a, b, zero_a, zero_b, scale_a, scale_b, bias = inputs
    assert a is not None and b is not None and scale_a is not None and scale_b is not None
    acc = sum_products(a, zero_a, b, zero_b)
    with np.errstate(all="ignore"):
        y = acc.astype(np.float32) * (scale_a.reshape(-1) * scale_b.reshape(-1))
        if bias is not None:
            y = y + bias.reshape(-1)
    return (y.reshape(graph.spec(node.outputs[0]).shape),)
