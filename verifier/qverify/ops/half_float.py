"""y = x rounded to float16 (nearest, ties to even), as float32 or float16."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()
PAIRS = {("float32", "float32"), ("float32", "float16"), ("float16", "float32")}  # dtypes of x and y


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, dtype = inputs[0], graph.spec(node.outputs[0]).dtype
    assert x is not None and (x.dtype.name, dtype) in PAIRS
    with np.errstate(over="ignore", invalid="ignore"):
        y = x.astype(np.float16).astype(dtype)
    y[np.isnan(y)] = np.nan
    return (y,)
