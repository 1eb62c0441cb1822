"""y = fl32(sum_a wy[a] * (sum_b wx[b] * X[row a, column b])), in float64 from 0, over the last two dims."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("taps_y", "taps_x")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x, index, weight = inputs
    assert x is not None and index is not None and weight is not None
    shape = graph.spec(node.outputs[0]).shape
    (rows, wy), (columns, wx) = _split_tables(node, index, weight, shape)
    with np.errstate(all="ignore"):
        lines = np.zeros((*x.shape[:-1], shape[-1]))
        for at, by in zip(columns.T, wx.T, strict=True):
            lines = lines + by * x[..., at].astype(np.float64)
        whole = np.zeros(shape)
        for at, by in zip(rows.T, wy.T, strict=True):
            whole = whole + by[:, None] * lines[..., at, :]
        y = whole.astype(np.float32)
    y[np.isnan(y)] = np.nan
    return (y,)


def _split_tables(
    node: Node, index: Array, weight: Array, shape: tuple[int, ...]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Returns the indices and float64 weights of the rows, [output rows, taps_y], and those of the columns."""
    cut, taps = node.words[0] * shape[-2], node.words
    parts = [(index[:cut], weight[:cut]), (index[cut:], weight[cut:])]
    both = [(i.reshape(-1, t), w.astype(np.float64).reshape(-1, t)) for (i, w), t in zip(parts, taps, strict=True)]
    return both[0], both[1]
