"""y = a sum, extremum or product of integers over the axes of the mask (NUMERICS.md, reduce_integer)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.reduced_rows import reduced_rows
from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("function", "axes_mask")
FUNCTIONS = (np.add, np.maximum, np.minimum, np.multiply)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Computes the function with the number words[0]. Raises BadFileError for an unknown number."""
    x, (function, mask) = inputs[0], node.words
    assert x is not None
    if not 0 <= function < len(FUNCTIONS):
        raise BadFileError(f"{node.name} (reduce_integer): unknown function {function}; it needs a newer qverify")
    with np.errstate(all="ignore"):
        reduced = FUNCTIONS[function].reduce(reduced_rows(x, mask), axis=-1, dtype=x.dtype)
    return (np.asarray(reduced).reshape(graph.spec(node.outputs[0]).shape),)
