"""y = x rounded to float16 (nearest, ties to even), as float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    assert inputs[0] is not None
    with np.errstate(over="ignore", invalid="ignore"):
        y = inputs[0].astype(np.float16).astype(np.float32)
    y[np.isnan(y)] = np.nan
    return (y,)
