"""y[i] = x[i mod the dims of x], x with leading dims of 1 up to the rank of y (NUMERICS.md, tile)."""

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
    return (tile(x, y.shape),)


def tile(x: Array, shape: tuple[int, ...]) -> Array:
    """Returns x repeated to this shape. Raises ValueError if a dim is no multiple of x's."""
    dims = (1,) * (len(shape) - x.ndim) + x.shape
    if len(dims) != len(shape) or any(out % n for out, n in zip(shape, dims, strict=True)):
        raise ValueError(f"{list(shape)} are no multiples of {list(dims)}")
    return np.tile(x.reshape(dims), [out // n for out, n in zip(shape, dims, strict=True)])
