"""The last steps of requantization are in another order or rounded by another rule: scale, round, add the zero point,
clamp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.rounding_rules import EVEN, RULES, Rule
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting
from qverify.triage.case import Array, Case, limits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "requantize-steps"
LATE = -1
OPS = LINEAR_OPS


def variants(case: Case) -> Iterator[FaultVariant]:
    if linear(case) is None:
        return
    ways = [*_ways(case)]
    likely = {text: bits for bits, text, _ in ways}
    yield from fitting(case, ((text, way) for _, text, way in ways), bits=likely.__getitem__)


def _ways(case: Case) -> Iterator[tuple[float, str, Callable[[SummedElements], Array]]]:
    """Yields (bits, text, way), with fewer bits for what a kernel is more likely to do."""
    zero_first = case.last.op == "mul"
    unsigned = limits(case.spec)[0] == 0
    for phrase, rule in RULES.items():
        first = 0.8 if unsigned and phrase.startswith("toward zero") else 1.0
        yield 1.2 - 0.2 * (not zero_first), f"the scaled sum is rounded {phrase}", partial(_zero_last, rule=rule)
        text = f"the scaled sum plus zero point is rounded {phrase}"
        yield first + 0.1 * (not zero_first), text, partial(_zero_first, rule=rule)
    for phrase in ("by adding 0.5 and truncating toward zero", "up (ceiling)", "half up"):
        text = f"the scaled sum is clipped to the limits, then rounded {phrase}"
        yield 1.1, text, partial(_clipped_first, rule=RULES[phrase])
    for phrase, rule in RULES.items():
        text = f", the scaled sum rounded {phrase}" if phrase != EVEN else ""
        for order, way in _ORDERS.items():
            likely = 0.7 if way is _clamp_before_zero else 0.9
            yield likely if not text else 6.0, order + text, partial(way, rule=rule)


def _zero_last(e: SummedElements, rule: Rule) -> Array:
    return e.finished(rule(e.steps(e.acc)))


def _clipped_first(e: SummedElements, rule: Rule) -> Array:
    sums, v = e.sums, e.steps(e.acc)
    return e.finished(rule(np.clip(v, sums.low - sums.zero_point, sums.high - sums.zero_point)))


def _zero_first(e: SummedElements, rule: Rule) -> Array:
    sums, v = e.sums, e.steps(e.acc)
    return np.clip(rule(v + v.dtype.type(sums.zero_point)), sums.low, sums.high).astype(sums.dtype)


def _whole(e: SummedElements, rule: Rule) -> Array:
    return rule(e.steps(e.acc)).astype(np.int64)


def _clamp_before_zero(e: SummedElements, rule: Rule) -> Array:
    return e.finished(np.clip(_whole(e, rule), e.sums.low, e.sums.high))


def _clamp_before_zero_only(e: SummedElements, rule: Rule) -> Array:
    info = np.iinfo(e.sums.dtype)
    return np.clip(np.clip(_whole(e, rule), e.sums.low, e.sums.high) + e.sums.zero_point, info.min, info.max).astype(
        e.sums.dtype
    )


def _clamp_to_type_before_zero(e: SummedElements, rule: Rule) -> Array:
    info = np.iinfo(e.sums.dtype)
    return e.finished(np.clip(_whole(e, rule), info.min, info.max))


def _clamp_wraps(e: SummedElements, rule: Rule) -> Array:
    return (np.clip(_whole(e, rule), e.sums.low, e.sums.high) + e.sums.zero_point).astype(e.sums.dtype)


def _wraps_before_clamp(e: SummedElements, rule: Rule) -> Array:
    whole = (_whole(e, rule) + e.sums.zero_point).astype(e.sums.dtype)
    return np.clip(whole, e.sums.low, e.sums.high).astype(e.sums.dtype)


def _zero_twice(e: SummedElements, rule: Rule) -> Array:
    return e.finished(_whole(e, rule) + e.sums.zero_point)


def _no_zero(e: SummedElements, rule: Rule) -> Array:
    return e.finished(_whole(e, rule) - e.sums.zero_point)


def _relu_at_raw_zero(e: SummedElements, rule: Rule) -> Array:
    return np.maximum(e.finished(_whole(e, rule)), 0).astype(e.sums.dtype)


def _saturated(e: SummedElements, rule: Rule, width: int) -> Array:
    half = 1 << width - 1
    return e.finished(np.clip(_whole(e, rule), -half, half - 1))


def _wrapped(e: SummedElements, rule: Rule, width: int) -> Array:
    half = 1 << width - 1
    return e.finished(((_whole(e, rule) + half) & (2 * half - 1)) - half)


_ORDERS: dict[str, Callable[..., Array]] = {
    "the activation limits are applied before the output zero point is added, and again after: the zero point counts as 0 for them": _clamp_before_zero,
    "the activation limits are applied only before the zero point is added": _clamp_before_zero_only,
    "the limits of the type are applied before the zero point is added": _clamp_to_type_before_zero,
    "the limits are applied before the zero point is added, and the sum wraps": _clamp_wraps,
    "the result wraps to the output type before the limits are applied": _wraps_before_clamp,
    "the output zero point is added twice": _zero_twice,
    "the output zero point is not added": _no_zero,
    "the output is clamped at raw 0": _relu_at_raw_zero,
    **{
        f"the scaled sum wraps to {n} bits before the zero point is added": partial(_wrapped, width=n)
        for n in (8, 9, 16)
    },
    "the scaled sum saturates to 8 bits before the zero point is added": partial(_saturated, width=8),
}
