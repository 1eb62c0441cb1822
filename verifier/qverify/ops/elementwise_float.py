"""float32 functions of one or two tensors, computed in float64 and rounded once (NUMERICS.md, elementwise_float)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import erf64, exp64, log64, sigmoid64, tanh64
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
WORDS = ("function", "p0_f32", "p1_f32")

TWO: dict[int, Callable[[Array, Array], Array]] = {
    0: np.add,
    1: np.subtract,
    2: np.multiply,
    3: np.divide,
    4: np.minimum,
    5: np.maximum,
}
ONE: dict[int, Callable[[Array, float, float], Array]] = {
    16: lambda x, p, q: np.where(x < 0, 0.0, x),
    17: lambda x, p, q: np.where(x < p, p, np.where(x > q, q, x)),
    18: lambda x, p, q: sigmoid64(x),
    19: lambda x, p, q: tanh64(x),
    20: lambda x, p, q: exp64(x),
    21: lambda x, p, q: np.sqrt(x),
    22: lambda x, p, q: erf64(x),
    24: lambda x, p, q: x * np.minimum(np.maximum(x / 6.0 + 0.5, 0.0), 1.0),
    25: lambda x, p, q: np.where(x < 0, p * x, x),
    26: lambda x, p, q: -x,
    27: lambda x, p, q: np.abs(x),
    28: lambda x, p, q: 1.0 / x,
    29: lambda x, p, q: log64(x),
    30: lambda x, p, q: np.where(x < 0, p * (exp64(x) - 1.0), x),
    31: lambda x, p, q: np.where(x > 0, x + log64(1.0 + exp64(-np.abs(x))), log64(1.0 + exp64(-np.abs(x)))),
    32: lambda x, p, q: (0.5 * x) * (1.0 + erf64(x * 0.7071067811865476)),
}


def _power(x: Array, exponent: float) -> Array:
    if exponent == 2:
        return x * x
    if exponent == 3:
        return (x * x) * x
    if exponent == 0.5:
        return np.sqrt(x.astype(np.float64)).astype(np.float32)
    return exp64(exponent * log64(x.astype(np.float64))).astype(np.float32)


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    function, (p, q) = node.words[0], (float_word(w) for w in node.words[1:])
    x = inputs[0]
    assert x is not None
    with np.errstate(all="ignore"):
        if function in TWO:
            assert inputs[1] is not None
            return (TWO[function](x.astype(np.float64), inputs[1].astype(np.float64)).astype(np.float32),)
        if function == 6:
            return (_power(x, float(p)),)
        if function == 23:
            return (np.minimum(np.maximum(p * x + q, np.float32(0)), np.float32(1)),)
        return (ONE[function](x.astype(np.float64), float(p), float(q)).astype(np.float32),)
