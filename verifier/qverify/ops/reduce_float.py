"""y = a sum, product, norm or extremum over the axes of the mask, in float64 in row-major order, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import exp64, log64
from qverify.arithmetic.reduced_rows import reduced_rows
from qverify.errors import BadFileError
from qverify.model_bin.float_functions import REDUCTIONS
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("function", "axes_mask")


def _sum(rows: Array) -> Array:
    total: Array = np.add.accumulate(rows, -1)[..., -1]
    return total


def _log_sum_exp(rows: Array) -> Array:
    largest = rows.max(-1)
    base = np.where(np.isfinite(largest), largest, 0.0)
    return base + log64(_sum(exp64(rows - base[..., None])))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": _sum,
    "max": lambda rows: rows.max(-1) + 0.0,
    "min": lambda rows: rows.min(-1) + 0.0,
    "prod": lambda rows: np.multiply.accumulate(rows, -1)[..., -1],
    "l1": lambda rows: _sum(np.abs(rows)),
    "l2": lambda rows: np.sqrt(_sum(rows * rows)),
    "sum_square": lambda rows: _sum(rows * rows),
    "log_sum": lambda rows: log64(_sum(rows)),
    "log_sum_exp": _log_sum_exp,
}


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Computes the function with the number words[0]. Raises BadFileError for an unknown number."""
    x, (function, mask) = inputs[0], node.words
    assert x is not None
    if not 0 <= function < len(REDUCTIONS):
        raise BadFileError(f"{node.name} (reduce_float): unknown function {function}; it needs a newer qverify")
    with np.errstate(all="ignore"):
        reduced = FUNCTIONS[REDUCTIONS[function]](reduced_rows(x.astype(np.float64), mask))
        return (reduced.astype(np.float32).reshape(graph.spec(node.outputs[0]).shape),)
