"""Values of elementwise functions in float64, and the errors that float32 libraries may have (NUMERICS.md section
4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import erf64
from qverify.compare.error_bounds.bounded_values import (
    ROUNDOFF,
    TINY,
    BoundedValue,
    NoBound,
    Real,
    Reals,
    float_word,
    require_real,
)
from qverify.model_bin.float_functions import NAMES
from qverify.model_bin.graph import Graph, Node

FARTHEST = 2.0**20  # largest argument of periodic functions; beyond it qverify's own sides return NaN, kernels a number


@dataclass(frozen=True, slots=True)
class Function:
    """An elementwise function.

    Attributes:
        compute: returns y for x and the parameters p0 and p1, in float64.
        roundoffs: returns, for x, y, p0 and p1, the largest error of a float32 library besides the rounding of y, in
            roundoffs; None if the function is exact.
        slope: the largest |dy/dx| if the function is not monotone, else 0.
    """

    compute: Callable[[Reals, float, float], Reals]
    roundoffs: Callable[[Reals, Reals, float, float], Reals] | None
    slope: float = 0.0


def _relative(times: float) -> Callable[[Reals, Reals, float, float], Reals]:
    """Returns an error function: `times` roundoffs relative to the value."""
    return lambda x, y, p, q: times * np.abs(y)


def _softplus(x: Reals, p: float, q: float) -> Reals:
    return np.maximum(x, 0.0) + functions64.log1p(functions64.exp(-np.abs(x)))


def _gelu(x: Reals, p: float, q: float) -> Reals:
    return 0.5 * x * (1.0 + erf64(x * 0.7071067811865476))


def _relative_to_argument(times: float) -> Callable[[Reals, Reals, float, float], Reals]:
    """Returns an error function: `times` roundoffs relative to the argument."""
    return lambda x, y, p, q: times * np.abs(x)


def _mish(x: Reals, p: float, q: float) -> Reals:
    return x * functions64.tanh(_softplus(x, p, q))


def _gelu_tanh(x: Reals, p: float, q: float) -> Reals:
    return 0.5 * x * (1.0 + functions64.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * (x * x * x))))


def _shrink(x: Reals, p: float, q: float) -> Reals:
    return np.where(x < -p, x + q, np.where(x > p, x - q, 0.0 * x))


def _bfloat16(x: Reals, p: float, q: float) -> Reals:
    """Returns the nearest multiples of the step of 8 significant bits, which is 2^-133 at least."""
    with np.errstate(over="ignore"):
        exponent = np.maximum(np.frexp(x)[1], -125)
        y = np.ldexp(np.rint(np.ldexp(x, 8 - exponent)), exponent - 8)
        return np.where(np.isfinite(x), np.where(np.abs(y) < 2.0**128, y, np.copysign(np.inf, x)), x)


def _limited(x: Reals) -> Reals:
    """Returns the arguments within FARTHEST; beyond it elementwise_float() has no value."""
    return np.clip(x, -FARTHEST, FARTHEST)


def _power(x: Reals, exponent: float, q: float) -> Reals:
    return functions64.power(x, exponent)


FUNCTIONS = {
    "pow": Function(_power, _relative(6)),
    "relu": Function(lambda x, p, q: np.maximum(x, 0.0), None),
    "clip": Function(lambda x, p, q: np.minimum(np.maximum(x, p), q), None),
    "sigmoid": Function(lambda x, p, q: 1.0 / (1.0 + functions64.exp(-x)), lambda x, y, p, q: np.full_like(y, 6.0)),
    "tanh": Function(lambda x, p, q: functions64.tanh(x), _relative(10)),
    "exp": Function(lambda x, p, q: functions64.exp(x), _relative(4)),
    "sqrt": Function(lambda x, p, q: np.sqrt(x), _relative(2)),
    "erf": Function(lambda x, p, q: erf64(x), _relative(4)),
    "hard_sigmoid": Function(
        lambda x, p, q: np.clip(p * x + q, 0.0, 1.0), lambda x, y, p, q: 2 * np.abs(p * x) * (y < 1) + 1.0 * y
    ),
    "hard_swish": Function(lambda x, p, q: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0), _relative_to_argument(4), 1.5),
    "leaky_relu": Function(lambda x, p, q: np.where(x < 0, p * x, x), _relative(1)),
    "neg": Function(lambda x, p, q: -x, None),
    "abs": Function(lambda x, p, q: np.abs(x), None, 1.0),
    "reciprocal": Function(lambda x, p, q: 1.0 / x, _relative(2)),
    "log": Function(lambda x, p, q: functions64.log(x), lambda x, y, p, q: 3.0 + 2.0 * np.abs(y)),
    "elu": Function(
        lambda x, p, q: np.where(x < 0, p * functions64.expm1(np.minimum(x, 0)), x),
        lambda x, y, p, q: np.where(x < 0, 4.0 * abs(p), 1.0 * np.abs(y)),
    ),
    "softplus": Function(_softplus, lambda x, y, p, q: 4.0 + 2.0 * np.abs(y)),
    "gelu": Function(_gelu, _relative_to_argument(4), 1.13),
    "selu": Function(
        lambda x, p, q: np.where(x > 0, q * x, q * p * functions64.expm1(np.minimum(x, 0))),
        lambda x, y, p, q: np.where(x < 0, 4.0 * abs(p * q), 1.0 * np.abs(y)),
    ),
    "celu": Function(
        lambda x, p, q: np.where(x > 0, x, p * functions64.expm1(np.minimum(x / p, 0))),
        lambda x, y, p, q: np.where(x < 0, 4.0 * abs(p), 0.0 * y),
    ),
    "thresholded_relu": Function(lambda x, p, q: np.where(x <= p, 0.0, x), None),
    "shrink": Function(_shrink, _relative(1)),
    "mish": Function(_mish, _relative_to_argument(10), 1.1),
    "softsign": Function(lambda x, p, q: x / (1.0 + np.abs(x)), _relative(5)),
    "swish": Function(lambda x, p, q: x / (1.0 + functions64.exp(-p * x)), _relative_to_argument(7), 1.1),
    "gelu_tanh": Function(_gelu_tanh, _relative_to_argument(7), 1.13),
    "floor": Function(lambda x, p, q: np.floor(x), None),
    "ceil": Function(lambda x, p, q: np.ceil(x), None),
    "round": Function(lambda x, p, q: np.rint(x), None),
    "sign": Function(lambda x, p, q: np.sign(x), None),
    "bfloat16": Function(_bfloat16, None),
    "sinh": Function(lambda x, p, q: functions64.sinh(x), _relative(5)),
    "cosh": Function(lambda x, p, q: functions64.cosh(x), _relative(4)),
    "asinh": Function(lambda x, p, q: functions64.asinh(x), _relative(4)),
    "acosh": Function(lambda x, p, q: functions64.acosh(x), _relative(4)),
    "atanh": Function(lambda x, p, q: functions64.atanh(x), _relative(4)),
    "asin": Function(lambda x, p, q: functions64.asin(x), _relative(16)),
    "acos": Function(lambda x, p, q: functions64.acos(x), _relative(10)),
    "atan": Function(lambda x, p, q: functions64.atan(x), _relative(10)),
    "sin": Function(lambda x, p, q: functions64.sin(_limited(x)), _relative(6), 1.0),
    "cos": Function(lambda x, p, q: functions64.cos(_limited(x)), _relative(6), 1.0),
    "tan": Function(lambda x, p, q: functions64.tan(_limited(x)), _relative(4)),
}


# Functions that a library computes with an error relative to this size, however small the value is. The error of
# qverify's own arithmetic is OWN_SHARE of it.
CANCELLING: dict[str, Callable[[Reals, float, float], Reals | float]] = {
    "sigmoid": lambda x, p, q: 0.0,
    "elu": lambda x, p, q: abs(p),
    "celu": lambda x, p, q: abs(p),
    "selu": lambda x, p, q: abs(p * q),
    "softplus": lambda x, p, q: 1.0,
    "gelu": lambda x, p, q: np.abs(x),
    "gelu_tanh": lambda x, p, q: np.abs(x),
}
OWN_SHARE = 2.0**-46
PERIODIC = ("sin", "cos", "tan")


def elementwise_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the bounded output of an elementwise_float node. Raises NoBound for a function without a bound."""
    name, p, q = NAMES.get(node.words[0], ""), float_word(node.words[1]), float_word(node.words[2])
    if name in TWO:
        return [TWO[name](require_real(inputs[0]), require_real(inputs[1]))]
    if name not in FUNCTIONS:
        raise NoBound(f"elementwise function {name or node.words[0]}")
    x = require_real(inputs[0])
    power = name == "pow" and p >= 0 and p.is_integer()
    if name == "pow" and not power and (x.value - x.error < 0).any():
        raise NoBound("a power of negative numbers")
    falls = (name == "thresholded_relu" and p < 0) or (name == "shrink" and q > p)
    if falls and x.error.any():
        raise NoBound(f"{name} that rises and falls")
    if name == "tan" and x.error.any():
        raise NoBound("tan of inexact floats")
    y = apply(FUNCTIONS[name], x, p, q, even=power and p % 2 == 0)
    if name not in PERIODIC:
        return [y]
    far, near = np.abs(x.value) - x.error > FARTHEST, np.abs(x.value) + x.error <= FARTHEST
    return [Real(np.where(far, np.nan, y.value), y.error).mark_lost(~near & np.isfinite(x.value))]


def half_float(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    """Returns the value rounded to float16, with the largest change of the result while the value changes by its
    error."""
    x = require_real(inputs[0])
    y, low, high = ((x.value + by).astype(np.float16).astype(np.float64) for by in (0.0, -x.error, x.error))
    if not x.error.any():
        return [Real(y, np.zeros_like(y))]
    return [Real(y, np.maximum(high - y, y - low))]


def apply(function: Function, x: Real, p: float, q: float, even: bool = False) -> Real:
    """Returns the function's value with its error: the error of x carried through the function, plus the largest error
    of a float32 library. A function in CANCELLING has a smaller error of qverify's own arithmetic, if x is exact. even:
    whether the function is a power with an even exponent."""
    y = function.compute(x.value, p, q)
    moved = _carry_error(function, x, y, p, q, even) if x.error.any() else np.zeros_like(y)
    if function.roundoffs is None:
        return Real(y, moved)
    roundoffs = function.roundoffs(x.value, y, p, q) + np.abs(y) + 10 * moved
    error = moved + ROUNDOFF * roundoffs + TINY
    size = next((of(x.value, p, q) for name, of in CANCELLING.items() if function is FUNCTIONS[name]), None)
    if size is None or moved.any():
        return Real(y, error)
    return Real(y, error, np.fmin(ROUNDOFF * np.abs(y) + OWN_SHARE * size + TINY, error))


def _carry_error(function: Function, x: Real, y: Reals, p: float, q: float, even: bool) -> Reals:
    """Returns the largest change of y while x changes by its error."""
    if even:
        return function.compute(np.abs(x.value) + x.error, p, q) - y
    if function.slope:
        return function.slope * x.error
    ends = [np.abs(function.compute(x.value + s * x.error, p, q) - y) for s in (-1, 1)]
    around_zero = np.abs(x.value) <= x.error
    return np.where(around_zero & (function is FUNCTIONS["reciprocal"]), np.inf, np.maximum(*ends))


def _add(a: Real, b: Real) -> Real:
    return Real(a.value + b.value, a.error + b.error).rounded()


def _subtract(a: Real, b: Real) -> Real:
    return Real(a.value - b.value, a.error + b.error).rounded()


def _multiply(a: Real, b: Real) -> Real:
    error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    return Real(a.value * b.value, error).rounded()


def _divide(a: Real, b: Real) -> Real:
    least = np.abs(b.value) - b.error
    value = a.value / b.value
    error = np.where(least > 0, (a.error + np.abs(value) * b.error) / least, np.inf)
    return Real(value, error).rounded(2)


def _prelu(a: Real, slope: Real) -> Real:
    steepest = np.abs(slope.value) + slope.error
    error = np.maximum(steepest, 1.0) * a.error + np.maximum(a.error - a.value, 0.0) * slope.error
    return Real(np.where(a.value < 0, slope.value * a.value, a.value), error).rounded()


TWO: dict[str, Callable[[Real, Real], Real]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "prelu": _prelu,
    "min": lambda a, b: Real(np.minimum(a.value, b.value), np.maximum(a.error, b.error)),
    "max": lambda a, b: Real(np.maximum(a.value, b.value), np.maximum(a.error, b.error)),
}
