"""y = sum (a-za)(b-zb) in int32, which wraps; the zero points are inputs, each one number, zb also one per column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.byte_products import multiply_bytes
from qverify.arithmetic.exact_matmul import exact_dtype, wrap_int32
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS: tuple[str, ...] = ()


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    a, b, zero_a, zero_b = inputs
    assert a is not None and b is not None
    return (sum_products(a, zero_a, b, zero_b).reshape(graph.spec(node.outputs[0]).shape),)


def sum_products(a: Array, zero_a: Array | None, b: Array, zero_b: Array | None) -> Array:
    """Returns (a - zero_a) @ (b - zero_b), wrapped to int32."""
    if (sums := multiply_bytes(a, zero_a, b, zero_b)) is not None:
        return sums
    dtype = exact_dtype(255 * 255 * a.shape[-1])
    return wrap_int32(np.matmul(centred(a, zero_a, dtype), centred(b, zero_b, dtype)))


def centred(values: Array, zero: Array | None, dtype: np.dtype[Any]) -> Array:
    """Returns values minus their zero point, which is one number or one for each element of the last axis."""
    return values.astype(dtype) if zero is None else values.astype(dtype) - zero.reshape(-1).astype(dtype)
