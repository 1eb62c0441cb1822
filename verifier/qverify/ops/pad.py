"""y = x with constant (0), reflected (1) or edge (2) borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("mode", "value", "begin[rank]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    mode, value, *begin = node.words
    widths = [(b, out - n - b) for b, out, n in zip(begin, y.shape, x.shape, strict=True)]
    if mode:
        return (np.pad(x, widths, "reflect" if mode == 1 else "edge"),)
    fill = np.array(value, np.int32).view(np.float32)[()] if y.dtype == "float32" else value
    return (np.pad(x, widths, constant_values=fill),)
