"""y = sum (a-za)(b-zb) in int32, which wraps; the zero points are inputs, each one number, zb also one per column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import exact_dtype, wrap_int32
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    a, b, zero_a, zero_b = inputs
    assert a is not None and b is not None
    dtype = exact_dtype(255 * 255 * a.shape[-1])
    acc = np.matmul(centred(a, zero_a, dtype), centred(b, zero_b, dtype))
    return (wrap_int32(acc).reshape(graph.spec(node.outputs[0]).shape),)


def centred(values: Array, zero: Array | None, dtype: np.dtype[Any]) -> Array:
    """Returns values minus their zero point, which is one number or one for each element of the last axis."""
    return values.astype(dtype) if zero is None else values.astype(dtype) - zero.reshape(-1).astype(dtype)
