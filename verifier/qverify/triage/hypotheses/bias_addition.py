"""The bias is added at another point, scaled separately, or kept in too few bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.narrow_floats import FORMATS, Narrow, significant
from qverify.triage.altered_kernels.rounding_rules import EVEN, RULES, Rule, finally_rounded
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, has_bias, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "bias-addition"
LATE = -1
OPS = LINEAR_OPS
APART = "the sum and the bias are scaled and rounded to output steps each by itself, then added"


def variants(case: Case) -> Iterator[FaultVariant]:
    if linear(case) is not None and has_bias(case):
        yield from fitting(case, [(APART, partial(_apart, of_sum=np.rint, of_bias=np.rint))], bits=0.5)
        yield from fitting(case, _ways())
        yield from fitting(case, _times(sample(case)))


def _ways() -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    for first, of_sum in RULES.items():
        for second, of_bias in RULES.items():
            rules = f", the sum {first}, the bias {second}" if (first, second) != (EVEN, EVEN) else ""
            if rules:
                yield f"{APART}{rules}", partial(_apart, of_sum=of_sum, of_bias=of_bias)
    for rule, way in RULES.items():
        end = finally_rounded(rule)
        yield (
            f"the bias is scaled and rounded by itself and added after the activation limits were applied{end}",
            partial(_after_clamp, rule=way, again=False),
        )
        yield (
            f"the bias is scaled and rounded by itself and added after the activation limits were applied, which are applied again{end}",
            partial(_after_clamp, rule=way, again=True),
        )
    yield "the bias is added to the output without its scale", _unscaled
    yield "the bias is added in steps of the output, its zero point included", _with_zero
    for name, narrow in {**FORMATS, **_significant()}.items():
        yield f"the bias is kept in {name}", partial(_narrow, narrow=narrow)
    for width in range(4, 32):
        yield f"the bias wraps to {width} bits", partial(_wrapped, width=width)
        yield f"the bias saturates to {width} bits", partial(_saturated, width=width)
    for by in range(1, 17):
        yield f"the bias is shifted right by {by}", partial(_shifted, by=2.0**-by)
        yield f"the bias is shifted left by {by}", partial(_shifted, by=2.0**by)
    yield "a negative bias is left out", lambda e: e.requantized(e.acc - np.minimum(e.bias, 0))
    yield "a positive bias is left out", lambda e: e.requantized(e.acc - np.maximum(e.bias, 0))
    yield "the absolute value of the bias is added", lambda e: e.requantized(e.acc - e.bias + np.abs(e.bias))
    yield "the bias is added three times", lambda e: e.requantized(e.acc + 2 * e.bias)


def _times(few: SummedElements | None) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    """Yields faults in which the bias is added once for every part of the sum."""
    assert few is not None
    shape = np.broadcast_shapes(few.summands.x.shape, few.summands.w.shape)[1:]
    counts = {"input channel": shape[0], "tap of the kernel": shape[1] * shape[2], "row of the kernel": shape[1]}
    depth = int(np.prod(shape))
    counts |= {"summand": depth} | {f"block of {n} summands": -(-depth // n) for n in (2, 4, 8, 16, 32, 64, 128, 256)}
    counts |= {f"block of {n} input channels": -(-shape[0] // n) for n in (2, 4, 8, 16, 32, 64)}
    for text, times in counts.items():
        if times > 1:
            yield f"the bias is added {times} times: once for every {text}", partial(_repeated, times=times)


def _repeated(e: SummedElements, times: int) -> Array:
    return e.requantized(e.acc + (times - 1) * e.bias)


def _significant() -> dict[str, Narrow]:
    rules: dict[str, Narrow] = {}
    for bits in range(2, 24):
        rules[f"{bits} significant bits"] = partial(significant, bits=bits)
        rules[f"{bits} significant bits, cut off"] = partial(significant, bits=bits, rounded=np.trunc)
    return rules


def _apart(e: SummedElements, of_sum: Rule, of_bias: Rule) -> Array:
    return e.finished(of_sum(e.steps(e.acc - e.bias)) + of_bias(e.steps(e.bias)))


def _after_clamp(e: SummedElements, rule: Rule, again: bool) -> Array:
    sums = e.sums
    first = np.clip(rule(e.steps(e.acc - e.bias)) + sums.zero_point, sums.low, sums.high) + rule(e.steps(e.bias))
    info = np.iinfo(sums.dtype)
    return np.clip(first, *((sums.low, sums.high) if again else (info.min, info.max))).astype(sums.dtype)


def _unscaled(e: SummedElements) -> Array:
    return e.finished(np.rint(e.steps(e.acc - e.bias)) + e.bias)


def _with_zero(e: SummedElements) -> Array:
    return e.finished(np.rint(e.steps(e.acc - e.bias)) + np.rint(e.steps(e.bias)) + e.sums.zero_point)


def _narrow(e: SummedElements, narrow: Narrow) -> Array:
    return e.requantized(e.acc - e.bias + narrow(e.bias.astype(np.float64)).astype(np.int64))


def _wrapped(e: SummedElements, width: int) -> Array:
    half = 1 << width - 1
    return e.requantized(e.acc - e.bias + ((e.bias + half) & (2 * half - 1)) - half)


def _saturated(e: SummedElements, width: int) -> Array:
    half = 1 << width - 1
    return e.requantized(e.acc - e.bias + np.clip(e.bias, -half, half - 1))


def _shifted(e: SummedElements, by: float) -> Array:
    return e.requantized(e.acc - e.bias + np.floor(e.bias * by).astype(np.int64))
