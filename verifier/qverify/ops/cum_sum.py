"""y = the sum of x up to each position along axis (NUMERICS.md, cum_sum)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("axis", "exclusive", "reverse")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, (axis, exclusive, reverse) = inputs[0], node.words
    assert x is not None
    with np.errstate(all="ignore"):
        sums = compute_running_sums(
            x.astype(np.float64) if x.dtype.kind == "f" else x, axis, bool(exclusive), bool(reverse)
        )
        return (sums.astype(x.dtype),)


def compute_running_sums(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Returns the running sums, in the dtype of x."""
    lines = np.flip(np.moveaxis(x, axis, 0), 0) if reverse else np.moveaxis(x, axis, 0)
    sums = np.add.accumulate(lines, 0, dtype=x.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    return np.ascontiguousarray(np.moveaxis(np.flip(sums, 0) if reverse else sums, 0, axis))
