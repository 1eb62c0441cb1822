"""The 8-bit softmax scales, divides or rounds its result in another way, or forces every row to add up to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.ops import float_word
from qverify.triage.altered_kernels.approximate_roots import reciprocals
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, UNLIKELY, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.softmax_kernels import (
    Steps,
    rounded,
    scaled_quotient,
    softmax_variant,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.rounding import RULES

NAME = "softmax-output"
OPS = ("softmax",)
Divide = Callable[[Array, Array, Steps], Array]
F32 = np.float32
QUOTIENTS: dict[str, Divide] = {
    "e * (steps / sum), the quotient rounded to float32": lambda e, t, s: e * (s.size / t),
    "(e / sum) * steps": lambda e, t, s: (e / t) * s.size,
    "e * (1 / sum) * steps, the reciprocal rounded to float32": lambda e, t, s: (e * (F32(1) / t)) * s.size,
    "(e * steps) * (1 / sum), the reciprocal rounded to float32": lambda e, t, s: (e * s.size) * (F32(1) / t),
    "in float64": lambda e, t, s: e.astype(float) * float(s.size) / t,
    "of e times 255 for 256": lambda e, t, s: (e * (s.size - F32(1))) / t,
    "of e times 127 for 128, or 255 for 256, and so twice rounded": lambda e, t, s: np.rint(
        (e / t) * (s.size - F32(1))
    ),
    "of 255 steps": lambda e, t, s: (e * F32(255)) / t,
    "of 256 steps": lambda e, t, s: (e * F32(256)) / t,
    "of 127 steps": lambda e, t, s: (e * F32(127)) / t,
    "of 128 steps": lambda e, t, s: (e * F32(128)) / t,
    "of its logarithm": lambda e, t, s: functions64.log(e / t) * s.size,
}
RESIDUES = {
    "the first largest element": lambda rows, v: rows.argmax(1),
    "the last largest element": lambda rows, v: rows.shape[1] - 1 - rows[:, ::-1].argmax(1),
    "the last element": lambda rows, v: np.full(len(rows), rows.shape[1] - 1),
    "the first element": lambda rows, v: np.zeros(len(rows), int),
    "the first smallest element": lambda rows, v: rows.argmin(1),
    "the element of the largest rounding error": lambda rows, v: np.abs(v - np.rint(v)).argmax(1),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if nodes_of(case, "softmax"):
        yield from fitting_rows(case, _faults(case))


def _faults(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "softmax")[:1]:
        zero = case.graph.spec(node.outputs[0]).zero_point[0]
        for phrase, rule in RULES.items():
            if rule is not np.rint:
                text = f"the result is rounded {phrase} instead of to the nearest"
                yield softmax_variant(text, LIKELY, finish=partial(_by_rule, rule=rule))
            if zero:
                yield softmax_variant(
                    f"the result plus the zero point is rounded {phrase}", finish=partial(_with_zero, rule=rule)
                )
        yield from _residues(int(np.rint(float_word(node.words[3]))))
        yield from _finishes()
        for phrase, divide in QUOTIENTS.items():
            text = f"the quotient is computed {'' if phrase.startswith(('in', 'of')) else 'as '}{phrase}"
            yield softmax_variant(text, divide=divide)
            for name, rule in (("down (floor)", np.floor), ("to the nearest, ties up", lambda v: np.floor(v + 0.5))):
                finish = partial(_by_rule, rule=rule)
                yield softmax_variant(f"{text}, and rounded {name}", UNLIKELY, divide=divide, finish=finish)
        for phrase, narrow in {**FORMATS, **FIXED}.items():
            yield from _narrow(phrase, narrow)
        for phrase, function in reciprocals().items():
            yield softmax_variant(
                f"1/sum is computed {phrase}", UNLIKELY, divide=partial(_reciprocal, function=function)
            )


def _residues(size: int) -> Iterator[FaultVariant]:
    numbers = {size: f"1/output scale ({size})"} | {n: str(n) for n in (255, 256, 127, 128) if n != size}
    for where, place in RESIDUES.items():
        for number, of in numbers.items():
            for how, clipped in (("with saturation", True), ("without saturation", False)):
                finish = partial(_forced, place=place, number=number, clipped=clipped)
                less = f"{of} less the sum of the rounded outputs is added to {where}, {how}"
                yield softmax_variant(f"every row is forced to add up to one: {less}", finish=finish)


def _by_rule(value: Array, rows: Array, steps: Steps, rule: Callable[[Array], Array]) -> Array:
    return np.clip(rule(value.astype(np.float64)), steps.low, steps.high)


def _with_zero(value: Array, rows: Array, steps: Steps, rule: Callable[[Array], Array]) -> Array:
    return np.clip(rule(value.astype(np.float64) + steps.zero_point) - steps.zero_point, steps.low, steps.high)


def _forced(
    value: Array, rows: Array, steps: Steps, place: Callable[[Array, Array], Array], number: int, clipped: bool
) -> Array:
    result = rounded(value, rows, steps).astype(np.int64)
    at = (np.arange(len(rows)), place(rows, value))
    result[at] += number - result.sum(1)
    return np.clip(result, steps.low, steps.high) if clipped else result


def _narrow(text: str, narrow: Format) -> Iterator[FaultVariant]:
    yield softmax_variant(
        f"the quotient e/sum is rounded to {text} before it is scaled",
        UNLIKELY,
        divide=lambda e, t, s: narrow((e / t).astype(float)) * s.size,
    )
    yield softmax_variant(
        f"the scaled result is rounded to {text} before it is rounded to an integer",
        UNLIKELY,
        divide=lambda e, t, s: narrow(scaled_quotient(e, t, s).astype(float)),
    )
    yield softmax_variant(
        f"1/sum is rounded to {text}", UNLIKELY, divide=lambda e, t, s: e * narrow(1.0 / t.astype(float)) * s.size
    )
    yield softmax_variant(
        f"steps/sum is rounded to {text}", divide=lambda e, t, s: e * narrow(float(s.size) / t.astype(float))
    )
    yield softmax_variant(
        f"the number of output steps (1/scale) is rounded to {text}",
        UNLIKELY,
        divide=lambda e, t, s: (e * F32(narrow(np.array(float(s.size))))) / t,
    )
    yield softmax_variant(
        f"the sum is rounded to {text}", divide=lambda e, t, s: (e * s.size) / narrow(t.astype(float)).astype(F32)
    )


def _reciprocal(e: Array, total: Array, steps: Steps, function: Callable[[Array], Array]) -> Array:
    return e * function(total.astype(np.float64)) * steps.size


def _finishes() -> Iterator[FaultVariant]:
    yield softmax_variant(
        "the output's zero point is left out",
        finish=lambda v, r, s: np.clip(np.rint(v), s.low + s.zero_point, s.high + s.zero_point) - s.zero_point,
    )
    yield softmax_variant(
        "the largest element of a row gets all (one-hot)",
        finish=lambda v, r, s: np.clip(
            np.where(np.arange(r.shape[1]) == r.argmax(1)[:, None], s.size, 0), s.low, s.high
        ),
    )
    yield softmax_variant(
        "the result wraps instead of saturating",
        finish=lambda v, r, s: (np.rint(v).astype(np.int64) - s.low) % 256 + s.low,
    )
    for most in (127, 255, 254, 126):
        yield softmax_variant(
            f"the result saturates at {most} steps",
            finish=bind_last(lambda v, r, s, m: np.clip(np.rint(v), s.low, m), most),
        )
    yield softmax_variant(
        "results are at least one step", finish=lambda v, r, s: np.clip(np.maximum(np.rint(v), 1), s.low, s.high)
    )
    yield softmax_variant("1 minus the result", finish=lambda v, r, s: np.clip(np.rint(s.size - v), s.low, s.high))
