"""The sum, the scale or their product is kept in too short a float, or rounded to fewer bits, before the result is
rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from qverify.triage.altered_kernels.narrow_floats import FORMATS, Narrow, fixed, significant
from qverify.triage.altered_kernels.rounding_rules import EVEN, NEAREST, RULES, Rule, finally_rounded
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting
from qverify.triage.altered_kernels.text_priors import prior
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "product-precision"
LATE = -1
OPS = LINEAR_OPS
BITS, FRACTION = range(4, 25), range(1, 9)
COARSE = 4  # fraction bits up to which the two roundings may have two rules
LAST = (EVEN, "half up", "half away from zero", "toward zero (truncated)", "down (floor)")


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case)
    if sums is not None:
        ways = [*_ways(sums.rq.dtype == np.float32)]
        yield from fitting(case, ways, bits=_likely)


def _likely(text: str) -> float:
    """Returns the bits of this text: several parts with different formats are unlikely."""
    formats = {name for name in FORMATS if f" in {name}" in text}
    parts = sum(text.count(f" in {name}") for name in formats)
    return prior(text) + (parts > 1) + 2.0 * (len(formats) > 1) + ("zero point added" in text)


def _ways(single: bool) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    formats: dict[str, Narrow | None] = {"": None, **FORMATS}
    if single:  # the product is in float32 anyway
        formats = {text: narrow for text, narrow in formats.items() if not text.startswith("float32")}
    for names in product(formats, repeat=3):
        if names[0] or names[2]:
            narrow = tuple(formats[n] for n in names)
            parts = [f"the {what} in {n}" for what, n in zip(("sum", "scale", "product"), names, strict=True) if n]
            text = f"requantization has {', '.join(parts)}"
            yield text, partial(_narrowed, narrow=narrow, zero=False, rule=np.rint)
            yield (
                f"{text}, the zero point added before rounding",
                partial(_narrowed, narrow=narrow, zero=True, rule=np.rint),
            )
    for bits in BITS:
        for cut, rule in (("rounded", np.rint), ("cut off", np.trunc)):
            for at, what in enumerate(("sum", "scaled sum")):
                way = partial(significant, bits=bits, rounded=rule)
                narrow = (way, None, None) if at == 0 else (None, None, way)
                yield (
                    f"the {what} has {bits} significant bits, {cut}",
                    partial(_narrowed, narrow=narrow, zero=False, rule=np.rint),
                )
    yield from _twice()


def _twice() -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    """Yields faults of two roundings: to a fraction of an output step, and then to a step."""
    for bits in FRACTION:
        for first in (
            "to nearest (ties to even)",
            "half up",
            "half away from zero",
            "down (floor)",
            "toward zero (truncated)",
        ):
            for last in LAST:
                if 0 < bits <= COARSE or last == EVEN:
                    way = partial(fixed, bits=bits, rounded=RULES[first])
                    text = f"the scaled sum is first rounded {first} to 1/{1 << bits} step{finally_rounded(last)}"
                    yield text, partial(_narrowed, narrow=(None, None, way), zero=False, rule=RULES[last])
    for what, by in (("doubled", 2.0), ("halved", 0.5)):
        for first in NEAREST:
            yield (
                f"the scaled sum is rounded {first} {what}, and rounded again",
                partial(_scaled_twice, by=by, rule=NEAREST[first]),
            )


def _scaled_twice(e: SummedElements, by: float, rule: Rule) -> Array:
    return e.finished(rule(rule(e.steps(e.acc).astype(np.float64) * by) / by))


def _narrowed(e: SummedElements, narrow: tuple[Narrow | None, ...], zero: bool, rule: Rule) -> Array:
    dtype = e.scale.dtype
    acc = e.acc.astype(np.float64)
    acc = acc if narrow[0] is None else narrow[0](acc)
    scale = e.scale if narrow[1] is None else narrow[1](e.scale)
    steps = acc.astype(dtype) * scale
    if zero:
        steps = steps + dtype.type(e.sums.zero_point)
    steps = steps if narrow[2] is None else narrow[2](steps)
    if zero:
        return np.clip(rule(steps), e.sums.low, e.sums.high).astype(e.sums.dtype)
    return e.rounded(steps, rule)
