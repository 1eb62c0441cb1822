"""Nodes that compute exp, log, erf, a root or a quotient, with these functions replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import asinh64, atan64, atanh64, erf64, exp64, log64, sin64, sinh64
from qverify.model_bin.float_functions import NAMES
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word, with_one_nan
from qverify.ops import page as op_page
from qverify.triage.altered_kernels.replaced_kernels import Kernel, nodes_of
from qverify.triage.altered_kernels.softmax_kernels import FloatSoftmax, LogSoftmax
from qverify.triage.case import Case

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of float64 values that a kernel uses. sigmoid and tanh are None if they are computed with exp and
    divide."""

    exp: Function = exp64
    log: Function = log64
    erf: Function = erf64
    sqrt: Function = np.sqrt
    divide: Callable[[Any, Array], Array] = np.divide
    sigmoid: Function | None = None
    tanh: Function | None = None
    atan: Function = atan64


def _sigmoid(x: Array, f: Functions) -> Array:
    return f.divide(1.0, 1.0 + f.exp(-x)) if f.sigmoid is None else f.sigmoid(x)


def _tanh(x: Array, f: Functions) -> Array:
    if f.tanh is not None:
        return f.tanh(x)
    size = np.abs(x)
    t = f.exp(2.0 * np.minimum(size, 20.0))
    mid = np.copysign(1.0 - f.divide(2.0, t + 1.0), x)
    return np.where(size > 20.0, np.copysign(1.0, x), np.where(size < 1e-5, x - ((x * x) * x) / 3.0, mid))


def _softplus(x: Array, f: Functions) -> Array:
    tail = f.log(1.0 + f.exp(-np.abs(x)))
    return np.where(x > 0, x + tail, tail)


def _power(x: Array, p: float, f: Functions) -> Array:
    return f.sqrt(x) if p == 0.5 else f.exp(p * f.log(x))


USES = {
    "exp": (
        *("exp", "sigmoid", "tanh", "elu", "softplus", "pow", "gelu", "erf"),
        *("swish", "gelu_tanh", "mish", "selu", "celu", "sinh", "cosh"),
    ),
    "log": ("log", "softplus", "pow", "asinh", "acosh", "atanh"),
    "erf": ("erf", "gelu"),
    "sqrt": ("sqrt", "pow", "asinh", "acosh", "asin", "acos"),
    "divide": (
        *("div", "reciprocal", "sigmoid", "tanh", "hard_swish"),
        *("swish", "gelu_tanh", "mish", "softsign", "tan", "asin", "acos", "atanh"),
    ),
    "sigmoid": ("sigmoid", "swish"),
    "tanh": ("tanh", "gelu_tanh"),
    "atan": ("atan", "asin", "acos"),
}
ONE: dict[str, Callable[[Array, float, float, Functions], Array]] = {
    "exp": lambda x, p, q, f: f.exp(x),
    "sigmoid": lambda x, p, q, f: _sigmoid(x, f),
    "tanh": lambda x, p, q, f: _tanh(x, f),
    "elu": lambda x, p, q, f: np.where(x < 0, p * (f.exp(x) - 1.0), x),
    "softplus": lambda x, p, q, f: _softplus(x, f),
    "pow": lambda x, p, q, f: _power(x, p, f),
    "log": lambda x, p, q, f: f.log(x),
    "erf": lambda x, p, q, f: _erf(x, f),
    "gelu": lambda x, p, q, f: (0.5 * x) * (1.0 + _erf(x * 0.7071067811865476, f)),
    "sqrt": lambda x, p, q, f: f.sqrt(x),
    "reciprocal": lambda x, p, q, f: f.divide(1.0, x),
    "swish": lambda x, p, q, f: x * _sigmoid(p * x, f),
    "gelu_tanh": lambda x, p, q, f: (0.5 * x) * (1.0 + _tanh(0.7978845608028654 * (x + 0.044715 * ((x * x) * x)), f)),
    "mish": lambda x, p, q, f: _mish(x, f),
    "selu": lambda x, p, q, f: np.where(x > 0, q * x, q * (p * (f.exp(x) - 1.0))),
    "celu": lambda x, p, q, f: np.where(x > 0, x, p * (f.exp(x / p) - 1.0)),
    "softsign": lambda x, p, q, f: f.divide(x, 1.0 + np.abs(x)),
    "sinh": lambda x, p, q, f: np.where(np.abs(x) < 0.25, sinh64(x), 0.5 * (f.exp(x) - f.exp(-x))),
    "cosh": lambda x, p, q, f: 0.5 * (f.exp(x) + f.exp(-x)),
    "asinh": lambda x, p, q, f: np.where(
        np.abs(x) < 1e-4, asinh64(x), np.copysign(f.log(np.abs(x) + f.sqrt(x * x + 1.0)), x)
    ),
    "acosh": lambda x, p, q, f: f.log(x + f.sqrt((x - 1.0) * (x + 1.0))),
    "atanh": lambda x, p, q, f: np.where(np.abs(x) < 1e-4, atanh64(x), 0.5 * f.log(f.divide(1.0 + x, 1.0 - x))),
    "asin": lambda x, p, q, f: _asin(x, f),
    "acos": lambda x, p, q, f: 1.5707963267948966 - _asin(x, f),
    "atan": lambda x, p, q, f: f.atan(x),
    "tan": lambda x, p, q, f: f.divide(sin64(x), sin64(x, 1)),
    "hard_swish": lambda x, p, q, f: x * np.minimum(np.maximum(f.divide(x, np.full_like(x, 6.0)) + 0.5, 0.0), 1.0),
}


def _mish(x: Array, f: Functions) -> Array:
    e = f.exp(np.minimum(x, 20.0))
    n = e * (e + 2.0)
    return np.where(x > 20.0, x, x * f.divide(n, n + 2.0))


def _asin(x: Array, f: Functions) -> Array:
    return f.atan(f.divide(x, f.sqrt((1.0 - x) * (1.0 + x))))


def _erf(x: Array, f: Functions) -> Array:
    """Returns erf(x). If exp is replaced and erf is not, the tail of the error function is computed with that exp."""
    if f.erf is not erf64 or f.exp is exp64:
        return f.erf(x)
    far = np.clip(np.abs(x), 2.5, 6.0)
    t = np.zeros_like(far)
    for k in range(60, 0, -1):
        t = (k * 0.5) / (far + t)
    tail = 1.0 - f.exp(-(far * far)) * (0.5641895835477563 / (far + t))
    size = np.abs(x)
    return np.where((size >= 2.5) & (size < 6.0), np.copysign(tail, x), erf64(x))


def function_of(node: Node) -> str:
    """Returns the name of the function that an elementwise_float node computes."""
    return NAMES.get(node.words[0], "")


def elementwise_kernel(node: Node, inputs: list[Array], graph: Graph, functions: Functions) -> Array:
    """Computes an elementwise_float node with these functions; a node that uses none of them is computed by the
    simulator."""
    name, (p, q) = function_of(node), (float(float_word(w)) for w in node.words[1:])
    x = inputs[0].astype(np.float64)
    if name == "div":
        return functions.divide(x, inputs[1].astype(np.float64))
    if name not in ONE or (name == "pow" and p in (2.0, 3.0)):
        values: list[Array | None] = list(inputs)
        return with_one_nan(op_page("elementwise_float").simulate(node, values, graph, None)[0])
    return ONE[name](x, p, q, functions)


def lrn_kernel(node: Node, inputs: list[Array], graph: Graph, functions: Functions) -> Array:
    """Computes an lrn node with these functions."""
    total = squares_of_neighbours(inputs[0].astype(np.float64), node.words[0])
    alpha, beta, bias = (float(float_word(w)) for w in node.words[1:])
    base = bias + (alpha / node.words[0]) * total
    power = np.where(base == 0, 0.0, functions.exp(beta * functions.log(base)))
    return functions.divide(inputs[0].astype(np.float64), power)


def squares_of_neighbours(real: Array, size: int) -> Array:
    """Returns for each element of [N, C, ...] the sum of squares in the window of channels around it."""
    total, channels = np.empty_like(real), real.shape[1]
    for c in range(channels):
        row = np.zeros_like(real[:, 0])
        for k in range(max(0, c - (size - 1) // 2), min(channels - 1, c + size // 2) + 1):
            row = row + real[:, k] * real[:, k]
        total[:, c] = row
    return total


def kernels_with(functions: Functions) -> dict[str, Kernel]:
    """Returns kernels with these functions for all ops that use such functions, by op."""
    return {
        "elementwise_float": partial(elementwise_kernel, functions=functions),
        "softmax_float": FloatSoftmax(exponential=functions.exp, divide=functions.divide),
        "log_softmax": LogSoftmax(exponential=functions.exp, log=functions.log),
        "lrn": partial(lrn_kernel, functions=functions),
    }


def uses(case: Case, function: str) -> bool:
    """Returns whether a node of the unit uses the function (a key of USES)."""
    if function in ("exp", "divide") and nodes_of(case, "softmax_float", "lrn"):
        return True
    if function in ("exp", "log") and nodes_of(case, "log_softmax"):
        return True
    if function == "log" and nodes_of(case, "lrn"):
        return True
    return any(function_of(n) in USES[function] for n in nodes_of(case, "elementwise_float"))
