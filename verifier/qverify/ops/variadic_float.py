"""y = sum, mean, max or min of any number of tensors, in float64 in their order, rounded once; numpy broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.model_bin.float_functions import VARIADIC
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("function",)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Computes the function with the number words[0]. Raises BadFileError for an unknown number."""
    function, shape = node.words[0], graph.spec(node.outputs[0]).shape
    if not 0 <= function < len(VARIADIC):
        raise BadFileError(f"{node.name} (variadic_float): unknown function {function}; it needs a newer qverify")
    first, *others = (np.broadcast_to(x, shape).astype(np.float64) for x in inputs if x is not None)
    name = VARIADIC[function]
    with np.errstate(all="ignore"):
        for x in others:
            first = first + x if name in ("sum", "mean") else _choose(first, x, name == "max")
        return ((first / len(inputs) if name == "mean" else first).astype(np.float32),)


def _choose(a: Array, b: Array, larger: bool) -> Array:
    """Returns the larger or the smaller element: the first if both are equal (zeros with different signs), NaN if one
    is NaN."""
    better = b > a if larger else b < a
    return np.where(better | (np.isnan(b) & ~np.isnan(a)), b, a)
