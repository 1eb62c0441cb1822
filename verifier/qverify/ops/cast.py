"""y = x in another type; floats are truncated toward 0 (NUMERICS.md, cast)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, y = inputs[0], graph.spec(node.outputs[0])
    assert x is not None
    if x.dtype.kind != "f" or y.dtype in ("float32", "bool"):
        return (x.astype(y.dtype).reshape(y.shape),)
    limits = np.iinfo("int64" if y.dtype == "int64" else "int32")
    whole = np.trunc(x.astype(np.float64))
    inside = (whole >= float(limits.min)) & (whole < -float(limits.min))
    whole_numbers = np.where(inside, np.where(inside, whole, 0).astype(limits.dtype), limits.min)
    return (whole_numbers.astype(y.dtype).reshape(y.shape),)  # types of 8 and 16 bits keep the low bits
