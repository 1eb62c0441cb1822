"""Log softmax uses another logarithm, leaves out a step, computes the logarithm of a rounded quotient, or works in a
narrower format."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import exp64, log64
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, rarity
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, UNLIKELY, kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.softmax_kernels import LogSoftmax
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "log-softmax-steps"
OPS = ("log_softmax",)
F32 = np.float32
Finish = Callable[[Array, Array, Callable[[Array], Array]], Array]
FINISHES: dict[str, Finish] = {
    "the logarithm of the sum is left out (elements less maximum)": lambda x, t, log: x + 0 * t,
    "the logarithm of the sum is added instead of subtracted": lambda x, t, log: x + log(t),
    "the sum itself is subtracted, not its logarithm": lambda x, t, log: x - t,
    "the logarithm of base 2 instead of the natural one": lambda x, t, log: x - functions64.log2(t),
    "the logarithm of base 10 instead of the natural one": lambda x, t, log: x - functions64.log10(t),
    "log(1 + sum) instead of log(sum)": lambda x, t, log: x - functions64.log1p(t),
    "the logarithm is not taken of the softmax": lambda x, t, log: exp64(x) / t,
    "the result is positive (its sign is lost)": lambda x, t, log: log(t) - x,
    "the logarithm of the quotient, in float64": lambda x, t, log: log(exp64(x) / t),
    "the logarithm of the quotient rounded to float32": lambda x, t, log: log((exp64(x) / t).astype(F32).astype(float)),
    "the sum is rounded to float32 before its logarithm": lambda x, t, log: x - log(t.astype(F32).astype(float)),
    "the logarithm of the sum is rounded to float32": lambda x, t, log: x - log(t).astype(F32).astype(float),
    "the logarithm of the sum is computed in float32": lambda x, t, log: (
        x - log64(t.astype(F32).astype(float)).astype(F32).astype(float)
    ),
    "log(sum) is log2(sum) times the float32 ln 2": lambda x, t, log: (
        x - functions64.log2(t) * float(F32(functions64.log(2)))
    ),
    "log(sum) is log2(sum) times 0.6931": lambda x, t, log: x - functions64.log2(t) * 0.6931,
    "log(sum) is log2(sum) times 0.693": lambda x, t, log: x - functions64.log2(t) * 0.693,
    "log(sum) is log2(sum) times 0.69314718": lambda x, t, log: x - functions64.log2(t) * 0.69314718,
    "the logarithm is that of the power of two below the sum": lambda x, t, log: (
        x - np.floor(functions64.log2(t)) * functions64.log(2)
    ),
}
SMALL = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-20, 1e-30, 1e-38, 2.0**-126)
LIMITS = (5, 8, 10, 12, 15, 16, 20, 30, 32, 50, 64, 80, 87, 88, 100, 103, 104)


def variants(case: Case) -> Iterator[FaultVariant]:
    if nodes_of(case, "log_softmax"):
        ways = (kernel_variant(f"log softmax: {s}", {"log_softmax": k}, b) for s, k, b in _ways())
        yield from fitting_rows(case, ways)


def _ways() -> Iterator[tuple[str, LogSoftmax, float]]:
    for text, finish in FINISHES.items():
        yield text, LogSoftmax(finish=finish), LIKELY
    no_maximum: Callable[[Array], Array] = lambda x: np.zeros((len(x), 1))  # noqa: E731
    yield (
        "no maximum is subtracted, in float32",
        LogSoftmax(
            largest=no_maximum,
            dtype=F32,
            exponential=bind_last(_rounded_to, exp64, F32),
            log=bind_last(_rounded_to, log64, F32),
        ),
        LIKELY,
    )
    for dtype in (np.float32, np.float16):
        exponential, logarithm = bind_last(_rounded_to, exp64, dtype), bind_last(_rounded_to, log64, dtype)
        for how, kernel in {
            "": LogSoftmax(dtype=dtype, exponential=exponential, log=logarithm),
            ", the logarithm taken of the quotient": LogSoftmax(
                dtype=dtype,
                exponential=exponential,
                log=logarithm,
                finish=bind_last(lambda x, t, log, exp: log(exp(x) / t), exponential),
            ),
        }.items():
            yield f"all of it is computed in {np.dtype(dtype).name}{how}", kernel, LIKELY
    for small in SMALL:
        for text, finish in _with_small(small).items():
            yield text, LogSoftmax(finish=finish), 8.0
    for limit in LIMITS:
        yield (
            f"elements less maximum end at -{limit}",
            LogSoftmax(below=bind_last(lambda v, n: np.maximum(v, -n), limit)),
            8.0,
        )
        ended = bind_last(lambda v, n: np.where(v < -n, 0.0, exp64(v)), limit)
        yield f"exponentials below e^-{limit} are 0", LogSoftmax(exponential=ended), 8.0
        least = bind_last(lambda x, t, log, n: np.maximum(x - log(t), -n), limit)
        yield f"the result is at least -{limit}", LogSoftmax(finish=least), 8.0
    for text, narrow in {**FORMATS, **FIXED}.items():
        cost = UNLIKELY - 6 + rarity(text)
        for what, kernel in {
            "elements less maximum are": LogSoftmax(below=narrow),
            "the exponentials are": LogSoftmax(exponential=bind_last(lambda v, f: f(exp64(v)), narrow)),
            "the sum of exponentials is": LogSoftmax(finish=bind_last(lambda x, t, log, f: x - log(f(t)), narrow)),
            "the logarithm of the sum is": LogSoftmax(finish=bind_last(lambda x, t, log, f: x - f(log(t)), narrow)),
            "the quotient of which the logarithm is taken is": LogSoftmax(
                finish=bind_last(lambda x, t, log, f: log(f(exp64(x) / t)), narrow)
            ),
            "the result is": LogSoftmax(finish=bind_last(lambda x, t, log, f: f(x - log(t)), narrow)),
        }.items():
            yield f"{what} rounded to {text}", kernel, cost


def _rounded_to(values: Array, function: Callable[[Array], Array], dtype: type) -> Array:
    return function(values.astype(np.float64)).astype(dtype)


def _with_small(small: float) -> dict[str, Finish]:
    return {
        f"{small:g} is added to the sum before its logarithm": bind_last(lambda x, t, log, e: x - log(t + e), small),
        f"{small:g} is added to the quotient before its logarithm": bind_last(
            lambda x, t, log, e: log(exp64(x) / t + e), small
        ),
        f"a quotient below {small:g} counts as {small:g} before its logarithm": bind_last(
            lambda x, t, log, e: log(np.maximum(exp64(x) / t, e)), small
        ),
    }
