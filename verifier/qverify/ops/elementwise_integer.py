"""Integer arithmetic that wraps, comparisons of integers and floats, and logic (NUMERICS.md, elementwise_integer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.integer_functions import NAMES

Array = npt.NDArray[Any]
WORDS = ("function",)


def _divide(a: Array, b: Array) -> Array:
    """Returns a/b truncated toward 0. Raises ValueError for a divisor of 0."""
    if (b == 0).any():
        raise ValueError("a divisor is 0")
    down = a // b
    return down + ((a - down * b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


ONE: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "bitwise_not": np.invert,
    "not": np.logical_not,
    "is_nan": np.isnan,
    "is_inf": np.isinf,
}
TWO: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "min": np.minimum,
    "max": np.maximum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "equal": np.equal,
    "less": np.less,
    "less_or_equal": np.less_equal,
    "greater": np.greater,
    "greater_or_equal": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Computes the function with the number words[0]. Raises BadFileError for a number that integer_functions.py does
    not have."""
    name, y, x = NAMES.get(node.words[0], ""), graph.spec(node.outputs[0]), inputs[0]
    assert x is not None
    with np.errstate(all="ignore"):
        if name in TWO:
            assert inputs[1] is not None and inputs[1].dtype == x.dtype
            y_values = TWO[name](x, inputs[1])
        elif name in ONE:
            y_values = ONE[name](x)
        elif name == "clip":
            y_values = _clip(x, *inputs[1:])
        else:
            raise BadFileError(
                f"{node.name} (elementwise_integer): unknown function {node.words[0]}; it needs a newer qverify"
            )
    return (np.asarray(y_values).astype(y.dtype, copy=False).reshape(y.shape),)


def _clip(x: Array, low: Array | None, high: Array | None) -> Array:
    above = x if low is None else np.maximum(x, low.reshape(()))
    return above if high is None else np.minimum(above, high.reshape(()))
