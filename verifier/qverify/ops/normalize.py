"""y = fl32(fl32(x - mean_c) * scale_c), c along axis 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
LARGEST = 2.0**60  # magnitude of mean and scale; with smaller ones nothing overflows, so that there is no NaN
WORDS = ("mean_f32[C]", "scale_f32[C]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    x = inputs[0]
    assert x is not None
    if x.ndim != 4 or len(node.words) != 2 * x.shape[1] or x.dtype.kind not in "iu" or x.dtype.itemsize > 2:
        raise ValueError(f"{node.name}: wanted (N, C, H, W) of 8 bits or int16, and a mean and a scale per channel")
    mean, scale = np.array(node.words, np.int32).view(np.float32).reshape(2, 1, -1, 1, 1)
    if not (np.abs(np.array([mean, scale])) <= LARGEST).all():
        raise ValueError(f"{node.name}: a mean or a scale is not within 2^60")
    return ((x.astype(np.float32) - mean) * scale,)
