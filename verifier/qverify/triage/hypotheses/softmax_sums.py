"""Softmax adds only a part of a row's exponentials, adds them in another format or order, or uses the maximum or the
sum of another row or of a part of the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic.float32 import exp64
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED
from qverify.triage.altered_kernels.replaced_kernels import UNLIKELY, kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_choice import row_choices
from qverify.triage.altered_kernels.row_sums import divisors, narrow_sums, partial_sums, sums_on
from qverify.triage.altered_kernels.softmax_kernels import FloatSoftmax, IntegerSoftmax, LogSoftmax
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "softmax-sums"
KERNELS: dict[str, Callable[..., Any]] = {
    "softmax": IntegerSoftmax,
    "softmax_float": FloatSoftmax,
    "log_softmax": LogSoftmax,
}
OPS = tuple(KERNELS)


def variants(case: Case) -> Iterator[FaultVariant]:
    for op, kernel in KERNELS.items():
        for node in nodes_of(case, op)[:1]:
            outer, depth, inner = node.words[:3]
            for text, parts, bits in _sums(depth, op != "softmax"):
                yield kernel_variant(
                    f"{op.removesuffix('_float').replace('_', ' ')}: {text}", {op: kernel(**parts)}, bits
                )
            for text, parts in (*_yield_row_choices(outer * inner, inner), *_faults(depth)):
                yield kernel_variant(
                    f"{op.removesuffix('_float').replace('_', ' ')}: {text}", {op: kernel(**parts)}, 7.0
                )
            for text, parts in _flushed(op):
                yield kernel_variant(f"softmax: {text}", {op: kernel(**parts)}, 8.0)
            for text, parts in _fixed():
                yield kernel_variant(
                    f"{op.removesuffix('_float').replace('_', ' ')}: {text}", {op: kernel(**parts)}, UNLIKELY
                )


def _sums(depth: int, wider: bool) -> Iterator[tuple[str, dict[str, Any], float]]:
    for part in partial_sums(depth):
        total, maximum = partial(_total, of=part.total), partial(_largest, of=part.total)
        yield f"the sum of exponentials takes part of the row: {part.text}", {"total": total}, part.bits
        yield f"the maximum is that of part of the row: {part.text}", {"largest": maximum}, part.bits + 0.5
        both = {"largest": maximum, "total": total}
        yield f"maximum and sum take part of the row: {part.text}", both, part.bits + 1
    for of in narrow_sums(depth, wider):
        yield f"the exponentials are summed {of.text}", {"total": partial(_total, of=of.total)}, of.bits + 1


MAXIMA: dict[str, Callable[[Array], Array]] = {
    "": lambda x: x.max(1, keepdims=True),
    "the maximum is not reset between rows (the largest of all rows so far); ": lambda x: np.maximum.accumulate(
        x.max(1, keepdims=True), 0
    ),
    "the maximum is that of the whole tensor; ": lambda x: np.full((len(x), 1), x.max()),
    "the maximum is that of the first row; ": lambda x: np.full((len(x), 1), x[:1].max()),
    "no maximum is subtracted; ": lambda x: np.zeros((len(x), 1)),
}
ENDS = (10, 8, 16, 20, 4, 5, 6, 7, 9, 12, 15, 30, 50, 80, 87, 88, 103)
LEAST = (4.5e-5, 4.54e-5, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, *(2.0**-k for k in range(6, 25)))


def _flushed(op: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields float softmaxes whose exponential becomes 0 early, for several maxima; a row with the sum 0 gives 0."""
    if op != "softmax_float":
        return
    for text, largest in MAXIMA.items():
        for end in ENDS:
            parts = {"largest": largest, "exponential": partial(_ended, end=end)}
            yield (
                f"{text}exponentials below e^-{end} are 0, and a row whose sum is 0 gives 0",
                parts | {"divide": _or_zero},
            )
            if text:
                yield f"{text}exponentials below e^-{end} are 0", parts
        for least in LEAST:
            parts = {"largest": largest, "exponential": partial(_at_least, least=least), "divide": _or_zero}
            yield f"{text}exponentials below {least:g} are 0, and a row whose sum is 0 gives 0", parts
        if text:
            yield f"{text}a row whose sum is 0 gives 0", {"largest": largest, "divide": _or_zero}


def _ended(x: Array, end: float) -> Array:
    return np.where(x < -end, 0.0, exp64(x))


def _at_least(x: Array, least: float) -> Array:
    e = exp64(x)
    return np.where(e < least, 0.0, e)


def _or_zero(e: Array, total: Array) -> Array:
    return np.where(total == 0, 0.0, e / total)


def _fixed() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, narrow in FIXED.items():
        yield (
            f"the sum of exponentials is rounded to {name}",
            {"total": bind_last(lambda e, f: f(e.astype(np.float64).sum(1, keepdims=True)).astype(e.dtype), narrow)},
        )
        yield (
            f"the exponentials are summed in {name}",
            {"total": bind_last(lambda e, f: f(e.astype(np.float64)).sum(1, keepdims=True).astype(e.dtype), narrow)},
        )


def _faults(depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "the sum starts at 1 (one exponential too many)",
        {"total": lambda e: e.sum(1, keepdims=True) + e.dtype.type(1)},
    )
    yield (
        "the exponential of the maximum is left out of the sum",
        {"total": lambda e: e.sum(1, keepdims=True) - e.max(1, keepdims=True)},
    )
    yield "the largest exponential instead of their sum", {"total": lambda e: e.max(1, keepdims=True)}
    yield "the sum's reciprocal is left out (no normalization)", {"total": lambda e: np.ones((len(e), 1), e.dtype)}
    yield "the squares of the exponentials are summed", {"total": lambda e: (e * e).sum(1, keepdims=True)}
    for text, number in divisors(depth).items():
        yield (
            f"the sum counts {text} elements, those beyond the row as exponentials of 0 difference",
            {"total": partial(_padded, more=number - depth)},
        )
    yield "no maximum is subtracted", {"largest": lambda x: np.zeros((len(x), 1), x.dtype)}
    yield "the smallest element is subtracted, not the largest", {"largest": lambda x: x.min(1, keepdims=True)}
    yield "the first element is subtracted, not the largest", {"largest": lambda x: x[:, :1]}
    yield "the last element is subtracted, not the largest", {"largest": lambda x: x[:, -1:]}
    yield (
        "the mean is subtracted, not the largest element",
        {"largest": lambda x: x.mean(1, keepdims=True).astype(x.dtype)},
    )
    for value in (0, 1, -1, 127, 128, 255, -128):
        yield (
            f"the search for the maximum starts at {value}",
            {"largest": bind_last(lambda x, v: np.maximum(x.max(1, keepdims=True), v), value)},
        )
    for value in (127, 255):
        yield (
            f"{value} is subtracted instead of the row's largest element",
            {"largest": bind_last(lambda x, v: np.full((len(x), 1), v, x.dtype), value)},
        )
    yield "the largest absolute value is subtracted", {"largest": lambda x: np.abs(x).max(1, keepdims=True)}
    yield (
        "the second largest element is subtracted",
        {"largest": lambda x: np.sort(x, 1)[:, -2:-1] if x.shape[1] > 1 else x},
    )


def _yield_row_choices(rows: int, inner: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for text, row in row_choices(rows, inner).items():
        yield f"a row is divided by the sum of {text}", {"total_at": row}
        yield f"a row's maximum is that of {text}", {"largest_at": row}
        yield f"a row's maximum and sum are those of {text}", {"largest_at": row, "total_at": row}
    yield (
        "the maximum is not reset between rows: it is the largest of all rows so far",
        {"largest": lambda x: np.maximum.accumulate(x.max(1, keepdims=True), 0)},
    )
    yield "the maximum is that of the whole tensor", {"largest": lambda x: np.full((len(x), 1), x.max())}
    yield "the sum is not reset between rows: it includes those of all rows so far", {"total": sums_on}
    yield "one sum of the whole tensor", {"total": lambda e: np.full((len(e), 1), e.sum(), e.dtype)}
    if inner > 1:
        yield "the maximum is not reset between inner positions", {"largest": partial(_carried, inner=inner)}
        yield (
            "the maximum is that of all inner positions",
            {"largest": lambda x: np.repeat(x.reshape(-1, inner * x.shape[1]).max(1), inner)[:, None]},
        )
        yield (
            "the sum is that of all inner positions",
            {"total": lambda e: np.repeat(e.reshape(-1, inner * e.shape[1]).sum(1), inner)[:, None]},
        )


def _total(e: Array, of: Callable[[Array], Array]) -> Array:
    return of(e).astype(e.dtype)[:, None]


def _largest(rows: Array, of: Callable[[Array], Array]) -> Array:
    """Returns the maximum of the elements that a partial sum takes, found by summing the rows of a unit matrix."""
    taken = of(np.eye(rows.shape[1])) > 0
    return rows[:, taken].max(1, keepdims=True)


def _padded(e: Array, more: float) -> Array:
    return e.sum(1, keepdims=True) + e.dtype.type(more)


def _carried(rows: Array, inner: int) -> Array:
    most = rows.max(1).reshape(-1, inner)
    return np.maximum.accumulate(most, 1).reshape(-1, 1)
