"""Wrong functions that kernels compute instead of a float function: another function, other constants, or the same
function without its parameters."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import erf64, exp64, log64, sigmoid64, sin64, tanh64
from qverify.triage.altered_kernels.bind_last import bind_last

Array = npt.NDArray[Any]
One = Callable[[Array, float, float], Array]
HALF_AWAY: One = lambda x, p, q: np.copysign(np.floor(np.abs(x) + 0.5), x)  # noqa: E731


def _tanh_gelu(x: Array, a: float, b: float) -> Array:
    return (0.5 * x) * (1.0 + tanh64(a * (x + b * ((x * x) * x))))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + functions64.log1p(functions64.exp(-np.abs(x)))


def _wrapped(x: Array, period: float, centre: bool = True) -> Array:
    turns = np.rint(x / period) if centre else np.floor(x / period)
    return x - turns * period


def _taylor(x: Array, terms: int, first: int) -> Array:
    """Returns the sine (first = 1) or cosine (first = 0) by its Taylor series."""
    y = np.zeros_like(x)
    for k in range(terms):
        y = y + (-1.0) ** k * functions64.power(x, 2 * k + first) / factorial(2 * k + first)
    return y


def _parabola(x: Array, refined: bool) -> Array:
    t = _wrapped(x, 2 * np.pi)
    y = 4 / np.pi * t - 4 / np.pi**2 * t * np.abs(t)
    return 0.225 * (y * np.abs(y) - y) + y if refined else y


def _bhaskara(x: Array) -> Array:
    t = _wrapped(x, 2 * np.pi)
    a = np.abs(t)
    return np.sign(t) * 16 * a * (np.pi - a) / (5 * np.pi**2 - 4 * a * (np.pi - a))


def _table(x: Array, entries: int, interpolated: bool, shift: float) -> Array:
    at = np.mod(x + shift, 2 * np.pi) / (2 * np.pi) * entries
    low = np.floor(at)
    part = at - low if interpolated else 0.0
    value = functions64.sin(low * (2 * np.pi / entries)), functions64.sin((low + 1) * (2 * np.pi / entries))
    return value[0] * (1 - part) + value[1] * part


def _waves(first: int) -> dict[str, One]:
    """Returns wrong functions for the sine (first = 1) or the cosine (first = 0), by text."""
    shift = 0.0 if first else np.pi / 2
    functions: dict[str, One] = {
        "takes its argument in degrees": lambda x, p, q: sin64(x * np.pi / 180, 1 - first),
        "is the other of sine and cosine": lambda x, p, q: sin64(x, first),
        "is a parabola": lambda x, p, q: _parabola(x + shift, False),
        "is a parabola, refined by 0.225": lambda x, p, q: _parabola(x + shift, True),
        "is Bhaskara's formula": lambda x, p, q: _bhaskara(x + shift),
        "loses its sign": lambda x, p, q: np.abs(sin64(x, 1 - first)),
        "reduces its argument by the float32 2 pi": lambda x, p, q: sin64(
            _wrapped(x, float(np.float32(2 * np.pi))), 1 - first
        ),
        "reduces its argument by 6.2832": lambda x, p, q: sin64(_wrapped(x, 6.2832), 1 - first),
        "reduces its argument by 6.28": lambda x, p, q: sin64(_wrapped(x, 6.28), 1 - first),
        "limits its argument to -pi..pi": lambda x, p, q: sin64(np.clip(x, -np.pi, np.pi), 1 - first),
        "limits its argument to -pi/2..pi/2": lambda x, p, q: sin64(np.clip(x, -np.pi / 2, np.pi / 2), 1 - first),
        "returns 1": lambda x, p, q: np.ones_like(x),
        "returns x": lambda x, p, q: x,
    }
    for terms in range(1, 9):
        text = f"takes {terms} term{'s' * (terms > 1)} of its Taylor series"
        functions[f"{text}, without reducing its argument"] = bind_last(lambda x, p, q, n: _taylor(x, n, first), terms)
        reduced = bind_last(lambda x, p, q, n: _taylor(_wrapped(x, 2 * np.pi), n, first), terms)
        functions[f"{text}, its argument reduced to -pi..pi"] = reduced
        folded = bind_last(lambda x, p, q, n: _folded(x + shift, n), terms)
        functions[f"takes {terms} terms of the sine's Taylor series, its argument folded to -pi/2..pi/2"] = folded
    for entries in (16, 32, 64, 128, 256, 512, 1024):
        for interpolated in (False, True):
            text = f"is a table of {entries} entries a turn{', interpolated' * interpolated}"
            functions[text] = bind_last(lambda x, p, q, n, i: _table(x, n, i, shift), entries, interpolated)
    return functions


def _folded(x: Array, terms: int) -> Array:
    turns = np.rint(x / np.pi)
    return np.where(turns % 2 == 0, 1.0, -1.0) * _taylor(x - turns * np.pi, terms, 1)


ROUNDS: dict[str, dict[str, One]] = {
    "round": {
        "rounds ties away from zero": HALF_AWAY,
        "rounds ties up": lambda x, p, q: np.floor(x + 0.5),
        "rounds ties toward zero": lambda x, p, q: np.copysign(np.ceil(np.abs(x) - 0.5), x),
        "adds 0.5 and truncates toward zero": lambda x, p, q: np.trunc(x + 0.5),
        "truncates toward zero": lambda x, p, q: np.trunc(x),
        "rounds down (floor)": lambda x, p, q: np.floor(x),
        "rounds up (ceil)": lambda x, p, q: np.ceil(x),
    },
    "floor": {
        "truncates toward zero": lambda x, p, q: np.trunc(x),
        "rounds to the nearest": lambda x, p, q: np.rint(x),
        "rounds up (ceil)": lambda x, p, q: np.ceil(x),
        "is ceil less 1": lambda x, p, q: np.ceil(x) - 1,
        "truncates toward zero and takes 1 off negative numbers": lambda x, p, q: np.trunc(x) - (x < 0),
    },
    "ceil": {
        "truncates toward zero": lambda x, p, q: np.trunc(x),
        "rounds to the nearest": lambda x, p, q: np.rint(x),
        "rounds down (floor)": lambda x, p, q: np.floor(x),
        "is floor plus 1": lambda x, p, q: np.floor(x) + 1,
        "truncates toward zero and adds 1 to positive numbers": lambda x, p, q: np.trunc(x) + (x > 0),
    },
}
MORE: dict[str, dict[str, One]] = {
    **ROUNDS,
    "sin": _waves(1),
    "cos": _waves(0),
    "tan": {
        "is sine": lambda x, p, q: sin64(x),
        "is cosine/sine": lambda x, p, q: sin64(x, 1) / sin64(x),
        "takes its argument in degrees": lambda x, p, q: functions64.tan(x * np.pi / 180),
        "is x + x^3/3": lambda x, p, q: x + functions64.power(x, 3) / 3,
        "is x + x^3/3 + 2 x^5/15": lambda x, p, q: x + functions64.power(x, 3) / 3 + 2 * functions64.power(x, 5) / 15,
    },
    "sign": {
        "returns 1 for 0": lambda x, p, q: np.where(x >= 0, 1.0, -1.0),
        "returns -1 for 0": lambda x, p, q: np.where(x > 0, 1.0, -1.0),
        "returns 0 for negative numbers": lambda x, p, q: np.where(x > 0, 1.0, 0.0),
        "returns the sign bit's sign, also of zeros": lambda x, p, q: np.copysign(1.0, x),
        "limits x to -1..1": lambda x, p, q: np.clip(x, -1, 1),
    },
    "swish": {
        "ignores its factor (x sigmoid(x))": lambda x, p, q: x * sigmoid64(x),
        "takes the factor 1.702": lambda x, p, q: x * sigmoid64(1.702 * x),
        "divides x by its factor": lambda x, p, q: x * sigmoid64(x / p),
        "multiplies by its factor outside, too": lambda x, p, q: p * x * sigmoid64(p * x),
        "multiplies by its factor outside only": lambda x, p, q: p * x * sigmoid64(x),
        "is hard swish": lambda x, p, q: x * np.clip(x / 6 + 0.5, 0, 1),
        "is x relu6(factor x + 3)/6": lambda x, p, q: x * np.clip(p * x / 6 + 0.5, 0, 1),
        "is sigmoid of factor times x": lambda x, p, q: sigmoid64(p * x),
        "is relu": lambda x, p, q: np.maximum(x, 0),
    },
    "gelu_tanh": {
        "is the form with erf": lambda x, p, q: (0.5 * x) * (1.0 + erf64(x * 0.7071067811865476)),
        "is x sigmoid(1.702 x)": lambda x, p, q: x * sigmoid64(1.702 * x),
        "leaves out its cubic term": lambda x, p, q: _tanh_gelu(x, 0.7978845608028654, 0.0),
        "takes 0.044 for 0.044715": lambda x, p, q: _tanh_gelu(x, 0.7978845608028654, 0.044),
        "takes 0.0447 for 0.044715": lambda x, p, q: _tanh_gelu(x, 0.7978845608028654, 0.0447),
        "takes 0.045 for 0.044715": lambda x, p, q: _tanh_gelu(x, 0.7978845608028654, 0.045),
        "takes 0.44715 for 0.044715": lambda x, p, q: _tanh_gelu(x, 0.7978845608028654, 0.44715),
        "takes 0.8 for sqrt(2/pi)": lambda x, p, q: _tanh_gelu(x, 0.8, 0.044715),
        "takes 0.7979 for sqrt(2/pi)": lambda x, p, q: _tanh_gelu(x, 0.7979, 0.044715),
        "takes 0.797885 for sqrt(2/pi)": lambda x, p, q: _tanh_gelu(x, 0.797885, 0.044715),
        "takes 0.79788456 for sqrt(2/pi)": lambda x, p, q: _tanh_gelu(x, 0.79788456, 0.044715),
        "takes 2/pi for sqrt(2/pi)": lambda x, p, q: _tanh_gelu(x, 2 / np.pi, 0.044715),
        "leaves out the factor 0.5": lambda x, p, q: 2 * _tanh_gelu(x, 0.7978845608028654, 0.044715),
        "leaves out the 1": lambda x, p, q: _tanh_gelu(x, 0.7978845608028654, 0.044715) - 0.5 * x,
        "squares x in its cubic term": lambda x, p, q: (
            (0.5 * x) * (1 + tanh64(0.7978845608028654 * (x + 0.044715 * (x * x))))
        ),
    },
    "mish": {
        "is x sigmoid(x)": lambda x, p, q: x * sigmoid64(x),
        "is x tanh(exp(x))": lambda x, p, q: x * tanh64(exp64(x)),
        "is x tanh(x)": lambda x, p, q: x * tanh64(x),
        "is tanh(softplus(x))": lambda x, p, q: tanh64(_softplus(x)),
        "is x tanh(relu(x))": lambda x, p, q: x * tanh64(np.maximum(x, 0)),
        **{
            f"returns x above {n}": bind_last(lambda x, p, q, n: np.where(x > n, x, x * tanh64(_softplus(x))), n)
            for n in (1, 2, 3, 4, 5, 6, 8, 10)
        },
        **{
            f"returns 0 below -{n}": bind_last(lambda x, p, q, n: np.where(x < -n, 0.0, x * tanh64(_softplus(x))), n)
            for n in (2, 3, 4, 5, 6, 8, 10, 20)
        },
    },
    "softsign": {
        "is x/(1 + x)": lambda x, p, q: x / (1 + x),
        "is x/(1 + x^2)": lambda x, p, q: x / (1 + x * x),
        "is x/sqrt(1 + x^2)": lambda x, p, q: x / np.sqrt(1 + x * x),
        "loses its sign": lambda x, p, q: np.abs(x) / (1 + np.abs(x)),
        "is tanh(x)": lambda x, p, q: tanh64(x),
    },
    "selu": {
        "ignores its gamma": lambda x, p, q: np.where(x > 0, x, p * (exp64(x) - 1)),
        "ignores its gamma for positive numbers": lambda x, p, q: np.where(x > 0, x, q * (p * (exp64(x) - 1))),
        "ignores its gamma for negative numbers": lambda x, p, q: np.where(x > 0, q * x, p * (exp64(x) - 1)),
        "ignores its alpha": lambda x, p, q: np.where(x > 0, q * x, q * (exp64(x) - 1)),
        "exchanges alpha and gamma": lambda x, p, q: np.where(x > 0, p * x, p * (q * (exp64(x) - 1))),
        "leaves out the -1": lambda x, p, q: np.where(x > 0, q * x, q * (p * exp64(x))),
        "multiplies exp(x) alone by alpha": lambda x, p, q: np.where(x > 0, q * x, q * (p * exp64(x) - 1)),
        "takes alpha and gamma of 4 decimal places": lambda x, p, q: np.where(
            x > 0, round(q, 4) * x, round(q, 4) * (round(p, 4) * (exp64(x) - 1))
        ),
    },
    "celu": {
        "is elu (x not divided by alpha)": lambda x, p, q: np.where(x > 0, x, p * (exp64(x) - 1)),
        "ignores its alpha": lambda x, p, q: np.where(x > 0, x, exp64(x) - 1),
        "does not multiply by alpha": lambda x, p, q: np.where(x > 0, x, exp64(x / p) - 1),
        "multiplies x by alpha inside": lambda x, p, q: np.where(x > 0, x, p * (exp64(x * p) - 1)),
        "leaves out the -1": lambda x, p, q: np.where(x > 0, x, p * exp64(x / p)),
    },
    "thresholded_relu": {
        "ignores its threshold (relu)": lambda x, p, q: np.maximum(x, 0),
        "takes the threshold 1": lambda x, p, q: np.where(x <= 1, 0.0, x),
        "subtracts its threshold": lambda x, p, q: np.maximum(x - p, 0),
        "returns its threshold below it": lambda x, p, q: np.maximum(x, p),
        "keeps an x equal to its threshold": lambda x, p, q: np.where(x < p, 0.0, x),
        "compares the absolute value": lambda x, p, q: np.where(np.abs(x) <= p, 0.0, x),
    },
    "shrink": {
        "ignores its bias": lambda x, p, q: np.where(np.abs(x) > p, x, 0.0),
        "takes its lambda for the bias": lambda x, p, q: np.where(x < -p, x + p, np.where(x > p, x - p, 0.0)),
        "ignores its lambda": lambda x, p, q: np.where(x < 0, x + q, np.where(x > 0, x - q, 0.0)),
        "exchanges bias and lambda": lambda x, p, q: np.where(x < -q, x + p, np.where(x > q, x - p, 0.0)),
        "adds its bias on the wrong side": lambda x, p, q: np.where(x < -p, x - q, np.where(x > p, x + q, 0.0)),
        "shrinks positive numbers only": lambda x, p, q: np.where(x > p, x - q, 0.0),
        "shrinks an x equal to its lambda": lambda x, p, q: np.where(x <= -p, x + q, np.where(x >= p, x - q, 0.0)),
        "returns x between -lambda and lambda": lambda x, p, q: np.where(x < -p, x + q, np.where(x > p, x - q, x)),
        "takes the lambda 0.5": lambda x, p, q: np.where(x < -0.5, x + q, np.where(x > 0.5, x - q, 0.0)),
    },
    "sinh": {
        "has no series near 0": lambda x, p, q: 0.5 * (exp64(x) - exp64(-x)),
        "subtracts its exponentials in float32": lambda x, p, q: (
            0.5 * (exp64(x).astype(np.float32) - exp64(-x).astype(np.float32)).astype(float)
        ),
        "is cosh": lambda x, p, q: 0.5 * (exp64(x) + exp64(-x)),
        "leaves out the factor 0.5": lambda x, p, q: exp64(x) - exp64(-x),
        "is x + x^3/6": lambda x, p, q: x + functions64.power(x, 3) / 6,
    },
    "cosh": {
        "is sinh": lambda x, p, q: 0.5 * (exp64(x) - exp64(-x)),
        "leaves out the factor 0.5": lambda x, p, q: exp64(x) + exp64(-x),
        "takes twice one exponential (0.5 exp(|x|))": lambda x, p, q: 0.5 * exp64(np.abs(x)),
        "is 1 + x^2/2": lambda x, p, q: 1 + x * x / 2,
    },
    "asinh": {
        "has no series near 0 and keeps no sign apart": lambda x, p, q: log64(x + np.sqrt(x * x + 1)),
        "takes x^2 - 1 under the root": lambda x, p, q: log64(x + np.sqrt(x * x - 1)),
        "loses its sign": lambda x, p, q: log64(np.abs(x) + np.sqrt(x * x + 1)),
        "is log(2 |x|) with its sign": lambda x, p, q: np.copysign(log64(2 * np.abs(x)), x),
    },
    "acosh": {
        "takes x^2 + 1 under the root": lambda x, p, q: log64(x + np.sqrt(x * x + 1)),
        "is log(2 x)": lambda x, p, q: log64(2 * x),
        "returns 0 below 1": lambda x, p, q: np.where(x < 1, 0.0, log64(x + np.sqrt((x - 1) * (x + 1)))),
    },
    "atanh": {
        "leaves out the factor 0.5": lambda x, p, q: log64((1 + x) / (1 - x)),
        "has no series near 0": lambda x, p, q: 0.5 * log64((1 + x) / (1 - x)),
        "is x + x^3/3": lambda x, p, q: x + functions64.power(x, 3) / 3,
        "divides upside down": lambda x, p, q: 0.5 * log64((1 - x) / (1 + x)),
    },
    "asin": {
        "is x + x^3/6": lambda x, p, q: x + functions64.power(x, 3) / 6,
        "is acos": lambda x, p, q: np.pi / 2 - functions64.atan(x / np.sqrt((1 - x) * (1 + x))),
        "is atan(x)": lambda x, p, q: functions64.atan(x),
    },
    "acos": {
        "is asin": lambda x, p, q: functions64.atan(x / np.sqrt((1 - x) * (1 + x))),
        "is pi/2 - x": lambda x, p, q: np.pi / 2 - x,
        "is pi/2 - x - x^3/6": lambda x, p, q: np.pi / 2 - x - functions64.power(x, 3) / 6,
    },
}
