"""The 8-bit softmax reads its exponentials from a table that is coarser or computed in another way, or at another
index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.triage.altered_kernels.approximate_exponentials import exponentials
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS
from qverify.triage.altered_kernels.replaced_kernels import UNLIKELY, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.softmax_kernels import by_index, softmax_variant
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "softmax-exponential"
LATE = 1
OPS = ("softmax",)
Index = Callable[[Array], Array]
AT = np.arange(256) - 255
WRAPPED: dict[str, Index] = {
    "wraps in int8": lambda d: ((d + 128) & 255) - 128,
    "is taken by its absolute value": np.abs,
    "is cut to 7 bits": lambda d: -(-d & 127),
    "is cut to 6 bits": lambda d: -(-d & 63),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if nodes_of(case, "softmax"):
        yield from fitting_rows(case, _faults())


def _faults() -> Iterator[FaultVariant]:
    for text, index in _indices():
        yield softmax_variant(
            f"the difference q - max {text} before it reads the table of exponentials",
            exponential=partial(_at, index=index),
        )
    for text, table in _tables():
        usual = any(f"of {k} fraction bits" in text for k in (7, 8, 10, 12, 14, 15, 16)) or "multiples of 1/" in text
        yield softmax_variant(text, 5.0 if usual else UNLIKELY, table=table)
    for text, function in exponentials().items():
        yield softmax_variant(
            f"the exponential is computed {text}", UNLIKELY, table=partial(_function, function=function)
        )


def _at(difference: Array, table: Array, index: Index) -> Array:
    return by_index(index(difference), table)


def _indices() -> Iterator[tuple[str, Index]]:
    for low in (-128, -127, -129, -255, -254, -64, -63, -32, -31, -16, -15, -96, -192, -8, -100, -200):
        yield f"saturates to {low}", bind_last(lambda d, low: np.maximum(d, low), low)
    yield from WRAPPED.items()
    for k in (-3, -2, -1, 1, 2, 3):
        yield f"is {abs(k)} too {'large' if k > 0 else 'small'}", bind_last(lambda d, k: d + k, k)
    for k in (1, 2, 3, 4):
        yield f"loses its lowest {k} bits (floor)", bind_last(lambda d, k: d >> k << k, k)
        yield f"loses its lowest {k} bits (toward zero)", bind_last(lambda d, k: -(-d >> k << k), k)
        yield f"is rounded to a multiple of {2**k}", bind_last(lambda d, k: (d + 2 ** (k - 1)) >> k << k, k)
        yield f"is shifted {k} bits to the right", bind_last(lambda d, k: d >> k, k)
        yield f"is shifted {k} bits to the left", bind_last(lambda d, k: d << k, k)
    for low in (-128, -127, -64, -32, -16, -192):
        yield (
            f"counts as infinite below {low} (exponential of the table's first entry)",
            bind_last(lambda d, low: np.where(d < low, -255, d), low),
        )


def _tables() -> Iterator[tuple[str, Callable[[Array, float], Array]]]:
    for text, narrow in FIXED.items():
        yield (
            f"the exponentials, 1 for the maximum, are rounded to {text}",
            bind_last(lambda t, s, f: f(t / t[-1]), narrow),
        )
    for text, narrow in FORMATS.items():
        yield f"the exponentials are rounded to {text}", bind_last(lambda t, s, f: f(t), narrow)
        yield (
            f"the exponentials, 1 for the maximum, are rounded to {text}",
            bind_last(lambda t, s, f: f(functions64.exp(AT * s)), narrow),
        )
        yield (
            f"the input's scale is rounded to {text} for the exponentials",
            bind_last(lambda t, s, f: functions64.exp(AT * f(np.array(s))), narrow),
        )
    for number in (127.0, 255.0, 32767.0, 65535.0, 2.0**31 - 1):
        for rule in (np.rint, np.floor):
            yield (
                f"the exponentials are {'rounded to' if rule is np.rint else 'cut to'} multiples of 1/{number:.0f}",
                bind_last(lambda t, s, n, r: r(t / t[-1] * n) / n, number, rule),
            )
    for low in range(-250, -1):
        yield (
            f"exponentials of differences below {low} count as 0",
            bind_last(lambda t, s, low: np.where(low > AT, 0.0, t), low),
        )
    for text, factor in (("2", 2.0), ("1/2", 0.5), ("4", 4.0), ("1/4", 0.25)):
        yield (
            f"the exponentials are of {text} times the difference",
            bind_last(lambda t, s, f: functions64.power(t, f), factor),
        )
    yield (
        "the exponentials are of the difference in steps, without the input's scale",
        lambda t, s: functions64.exp(AT.astype(float)),
    )
    yield (
        "the input's scale is rounded to a power of two for the exponentials",
        lambda t, s: functions64.exp(AT * 2.0 ** np.rint(functions64.log2(s))),
    )
    yield (
        "the input's scale is rounded down to a power of two for the exponentials",
        lambda t, s: functions64.exp(AT * 2.0 ** np.floor(functions64.log2(s))),
    )
    yield "the exponentials are powers of two of the difference in steps", lambda t, s: 2.0**AT
    yield "1 plus the difference instead of its exponential", lambda t, s: np.maximum(1 + AT * s, 0)


def _function(table: Array, scale: float, function: Callable[[Array], Array]) -> Array:
    return function(AT * scale)
