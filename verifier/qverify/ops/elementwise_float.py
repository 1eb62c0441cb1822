"""float32 functions of one or two tensors, computed in float64 and rounded once (NUMERICS.md, elementwise_float)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import (
    asinh64,
    atan64,
    atanh64,
    erf64,
    exp64,
    log64,
    sigmoid64,
    sin64,
    sinh64,
    tanh64,
)
from qverify.arithmetic.workers import run_blocks, split_range
from qverify.errors import BadFileError
from qverify.model_bin.float_functions import NAMES
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
WORDS = ("function", "p0_f32", "p1_f32")
BLOCK = 1 << 13  # elements of a block, of which all float64 values stay in a second-level cache (measured)


def _power(x: Array, exponent: float, unused: float) -> Array:
    if exponent == 2:
        return x * x
    if exponent == 3:
        return (x * x) * x
    if exponent == 0.5:
        return np.sqrt(x.astype(np.float64)).astype(np.float32)
    size, whole = x.astype(np.float64), exponent == np.rint(exponent)
    if exponent == 0:
        return np.ones_like(x)
    power = exp64(exponent * log64(np.abs(size) if whole else size))
    odd = whole and abs(exponent) < 2**24 and exponent % 2 == 1
    return (np.where(size < 0, -power, power) if odd else power).astype(np.float32)


def _hard_sigmoid(x: Array, p: float, q: float) -> Array:
    scaled: Array = np.float32(p) * x + np.float32(q)
    return np.minimum(np.maximum(scaled, np.float32(0)), np.float32(1))


def _mish(x: Array, p: float, q: float) -> Array:
    e = exp64(np.minimum(x, 20.0))
    n = e * (e + 2.0)
    return np.where(x > 20.0, x, x * (n / (n + 2.0)))


def _asin(x: Array) -> Array:
    return atan64(x / np.sqrt((1.0 - x) * (1.0 + x)))


def _gelu_tanh(x: Array, p: float, q: float) -> Array:
    return (0.5 * x) * (1.0 + tanh64(0.7978845608028654 * (x + 0.044715 * ((x * x) * x))))


def _bfloat16(x: Array, p: float, q: float) -> Array:
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32))


TWO: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": lambda a, b: np.where(np.isnan(a) | (a < b), a, b),  # of two zeros with different signs the second
    "max": lambda a, b: np.where(np.isnan(a) | (a > b), a, b),
    "prelu": lambda x, slope: np.where(x < 0, slope * x, x),
}
ONE: dict[str, Callable[[Array, float, float], Array]] = {
    "relu": lambda x, p, q: np.where(x < 0, 0.0, x),
    "clip": lambda x, p, q: np.where(x < p, p, np.where(x > q, q, x)),
    "sigmoid": lambda x, p, q: sigmoid64(x),
    "tanh": lambda x, p, q: tanh64(x),
    "exp": lambda x, p, q: exp64(x),
    "sqrt": lambda x, p, q: np.sqrt(x),
    "erf": lambda x, p, q: erf64(x),
    "hard_swish": lambda x, p, q: x * np.minimum(np.maximum(x / 6.0 + 0.5, 0.0), 1.0),
    "leaky_relu": lambda x, p, q: np.where(x < 0, p * x, x),
    "neg": lambda x, p, q: -x,
    "abs": lambda x, p, q: np.abs(x),
    "reciprocal": lambda x, p, q: 1.0 / x,
    "log": lambda x, p, q: log64(x),
    "elu": lambda x, p, q: np.where(x < 0, p * (exp64(x) - 1.0), x),
    "softplus": lambda x, p, q: np.where(x > 0, x + log64(1.0 + exp64(-np.abs(x))), log64(1.0 + exp64(-np.abs(x)))),
    "gelu": lambda x, p, q: (0.5 * x) * (1.0 + erf64(x * 0.7071067811865476)),
    "selu": lambda x, p, q: np.where(x > 0, q * x, q * (p * (exp64(x) - 1.0))),
    "celu": lambda x, p, q: np.where(x > 0, x, p * (exp64(x / p) - 1.0)),
    "thresholded_relu": lambda x, p, q: np.where(x <= p, 0.0, x),
    "shrink": lambda x, p, q: np.where(x < -p, x + q, np.where(x > p, x - q, np.where(np.isnan(x), x, 0.0))),
    "mish": _mish,
    "softsign": lambda x, p, q: x / (1.0 + np.abs(x)),
    "swish": lambda x, p, q: x * sigmoid64(p * x),
    "gelu_tanh": _gelu_tanh,
    "floor": lambda x, p, q: np.floor(x),
    "ceil": lambda x, p, q: np.ceil(x),
    "round": lambda x, p, q: np.rint(x),
    "sign": lambda x, p, q: np.where(x > 0, 1.0, np.where(x < 0, -1.0, np.where(np.isnan(x), x, 0.0))),
    "sinh": lambda x, p, q: sinh64(x),
    "cosh": lambda x, p, q: 0.5 * (exp64(x) + exp64(-x)),
    "asinh": lambda x, p, q: asinh64(x),
    "acosh": lambda x, p, q: log64(x + np.sqrt((x - 1.0) * (x + 1.0))),
    "atanh": lambda x, p, q: atanh64(x),
    "asin": lambda x, p, q: _asin(x),
    "acos": lambda x, p, q: 1.5707963267948966 - _asin(x),
    "atan": lambda x, p, q: atan64(x),
    "sin": lambda x, p, q: sin64(x),
    "cos": lambda x, p, q: sin64(x, 1),
    "tan": lambda x, p, q: sin64(x) / sin64(x, 1),
}
IN_FLOAT32: dict[str, Callable[[Array, float, float], Array]] = {
    "pow": _power,
    "hard_sigmoid": _hard_sigmoid,
    "bfloat16": _bfloat16,
}


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Computes the function with the number words[0]. Raises BadFileError for a number that float_functions.py does not
    have."""
    name, (p, q) = NAMES.get(node.words[0], ""), (float(float_word(w)) for w in node.words[1:])
    x = inputs[0]
    assert x is not None
    with np.errstate(all="ignore"):
        if name in TWO:
            assert inputs[1] is not None
            return (_combine(TWO[name], x, inputs[1]),)
        if name in IN_FLOAT32:
            return (IN_FLOAT32[name](x, p, q),)
        if name in ONE:
            return (_compute_in_blocks(lambda part: ONE[name](part.astype(np.float64), p, q), x),)
    raise BadFileError(f"{node.name} (elementwise_float): unknown function {node.words[0]}; it needs a newer qverify")


def _combine(function: Callable[[Array, Array], Array], x: Array, other: Array) -> Array:
    """Returns the function of two tensors in float64, rounded to float32."""
    if not isinstance(function, np.ufunc):
        return function(x.astype(np.float64), other.astype(np.float64)).astype(np.float32)
    y = np.empty(np.broadcast_shapes(x.shape, other.shape), np.float32)
    function(x, other, out=y, dtype=np.float64, casting="same_kind")  # converts in small buffers, both ways
    return y


def _compute_in_blocks(function: Callable[[Array], Array], x: Array) -> Array:
    """Returns the function of each element of x, as float32, computed in blocks that stay in the cache."""
    flat = x.reshape(-1)
    y = np.empty(flat.shape, np.float32)

    def block(part: slice) -> None:
        y[part] = function(flat[part])

    run_blocks([partial(block, part) for part in split_range(len(flat), BLOCK)])
    return y.reshape(x.shape)


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns the magnitude to which the error of a sigmoid is relative: a library computes it with an error relative
    to 1, however small the value is."""
    return 1.0 if NAMES.get(node.words[0]) == "sigmoid" else 0.0
