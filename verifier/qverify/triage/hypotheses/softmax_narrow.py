"""Softmax works in fixed point or in a narrower format from the exponentials to the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import exp64
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format, flushed
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.softmax_kernels import FloatSoftmax, IntegerSoftmax, Steps
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "softmax-narrow"
LATE = 1
OPS = ("softmax", "softmax_float")
F = np.float32
RULES: dict[str, Callable[[Array], Array]] = {
    "cut off": np.floor,
    "rounded half up": lambda v: np.floor(v + 0.5),
    "rounded to nearest": np.rint,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if nodes_of(case, "softmax", "softmax_float"):
        yield from fitting_rows(case, _faults(case))


def _faults(case: Case) -> Iterator[FaultVariant]:
    if nodes_of(case, "softmax"):
        for bits in (7, 8, 10, 12, 14, 15, 16, 20, 23, 24, 30, 31):
            for text, rule in RULES.items():
                for ended, end in RULES.items():
                    yield from _yield_integer_faults(bits, (text, rule), (ended, end))
    if nodes_of(case, "softmax_float"):
        yield from _yield_float_faults()


def _yield_integer_faults(
    bits: int, first: tuple[str, Callable[[Array], Array]], last: tuple[str, Callable[[Array], Array]]
) -> Iterator[FaultVariant]:
    one = 2.0**bits - 1 if bits in (7, 8, 15, 16, 31) else 2.0**bits
    phrase = f"softmax: the exponentials are integers of {bits} bits ({first[0]}), their quotient by the sum in output steps is {last[0]}"

    def exponential(difference: Array, table: Array) -> Array:
        whole = first[1](table.astype(float) / float(table[255]) * one)
        return whole[np.clip(difference + 255, 0, 255)]

    def reciprocal(e: Array, total: Array, steps: Steps, scale: float) -> Array:
        return e * np.floor(scale / total) * float(steps.size) / scale

    kernel = partial(IntegerSoftmax, exponential=exponential, finish=partial(_ended, rule=last[1]))
    yield kernel_variant(phrase, {"softmax": kernel(divide=lambda e, t, s: e * float(s.size) / t)}, 10.0)
    for power in (15, 16, 24, 30, 31, 32):
        text = f"{phrase}, by a whole reciprocal 2^{power}/sum"
        scale = 2.0**power
        divide = partial(reciprocal, scale=scale * one if power < 24 else scale)
        yield kernel_variant(text, {"softmax": kernel(divide=divide)}, 12.0)


def _ended(value: Array, rows: Array, steps: Steps, rule: Callable[[Array], Array]) -> Array:
    return np.clip(rule(value), steps.low, steps.high)


def _yield_float_faults() -> Iterator[FaultVariant]:
    def variant(name: str, bits: float, kernel: FloatSoftmax) -> FaultVariant:
        return kernel_variant(f"softmax: {name}", {"softmax_float": kernel}, bits)

    yield variant("exponentials, sum and quotient are computed in float32", LIKELY, FloatSoftmax(exponential=_exp32))
    yield variant("the result is 1 minus itself", LIKELY, FloatSoftmax(divide=lambda e, t: 1 - e / t))
    yield variant(
        "the logarithm is returned (log softmax)", LIKELY, FloatSoftmax(divide=lambda e, t: functions64.log(e / t))
    )
    yield variant("the exponentials are not divided", LIKELY, FloatSoftmax(divide=lambda e, t: e))
    yield variant(
        "the quotient is e times the float32 nearest 1/sum, in float32",
        LIKELY,
        FloatSoftmax(divide=lambda e, t: e.astype(F) * (1 / t).astype(F)),
    )
    for factor in (2.0, 0.5, 8.0, 0.125, 10.0):
        yield variant(
            f"the input is taken {factor:g} times as large",
            7.0,
            FloatSoftmax(exponential=partial(_scaled, factor=factor)),
        )
    for power in (8, 10, 12, 14, 15, 16, 20, 24):
        yield variant(f"results below 2^-{power} are 0", 8.0, FloatSoftmax(divide=partial(_cut, least=2.0**-power)))
    for name, narrow in {"float32 without subnormals": flushed, **FORMATS, **FIXED}.items():
        yield variant(f"the result is rounded to {name}", 10.0, FloatSoftmax(divide=partial(_rounded, narrow=narrow)))
        yield variant(f"the sum is rounded to {name}", 10.0, FloatSoftmax(divide=partial(_of_total, narrow=narrow)))
        yield variant(
            f"exponentials and result are rounded to {name}",
            11.0,
            FloatSoftmax(exponential=partial(_exponential, narrow=narrow), divide=partial(_rounded, narrow=narrow)),
        )


def _exp32(x: Array) -> Array:
    return exp64(x).astype(F)


def _scaled(x: Array, factor: float) -> Array:
    return exp64(x * factor)


def _cut(e: Array, total: Array, least: float) -> Array:
    return np.where(e / total < least, 0.0, e / total)


def _rounded(e: Array, total: Array, narrow: Format) -> Array:
    return narrow(e / total)


def _of_total(e: Array, total: Array, narrow: Format) -> Array:
    return e / narrow(total)


def _exponential(x: Array, narrow: Format) -> Array:
    return narrow(exp64(x))
