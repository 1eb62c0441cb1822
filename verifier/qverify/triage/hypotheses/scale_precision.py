"""The requantization scale is kept in too few bits: a short float, few significant bits, a fixed point, one shift for
all channels, or a power of two."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.triage.altered_kernels.narrow_floats import FORMATS, fixed, float16, significant
from qverify.triage.altered_kernels.rounding_rules import EVEN, RULES, Rule, finally_rounded, half_up
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting_alike
from qverify.triage.altered_kernels.text_priors import ALL, prior
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "scale-precision"
LATE = -1
OPS = LINEAR_OPS
SIGNIFICANT, FRACTION, COMMON = range(1, 27), range(4, 41), range(4, 25)
CUTS: dict[str, Rule] = {"rounded": half_up, "cut off": np.floor, "rounded up": np.ceil}
NEAR = 2.0**-16  # largest relative error of a scale that is nearly right
NEARLY_RIGHT = 2.0  # additional bits of such a scale
SLIGHT = 2.0**-12  # largest relative error of a scale that is not combined with another rounding rule
BITS = re.compile(r"kept with (\d+) significant bits, (.*)")
LAST = (EVEN, "half up", "half away from zero", "down (floor)", "toward zero (truncated)")


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case)
    if sums is None:
        return
    values = sums.rq if sums.rq.ndim == 1 else sums.real
    own_key = np.ascontiguousarray(values).tobytes()
    texts: dict[bytes, list[str]] = {}
    scales: dict[bytes, Array] = {}
    for text, narrow in _narrow(len(values)):
        narrowed = np.ascontiguousarray(narrow(values))
        if (key := narrowed.tobytes()) != own_key:
            texts.setdefault(key, []).append(text)
            scales[key] = narrowed
    near = {t for key, names in texts.items() if _are_near(scales[key], values) for t in (*_together(names), *names)}
    yield from fitting_alike(case, _ways(texts, scales, values), bits=partial(_likely, near=near))


def _likely(text: str, near: set[str]) -> float:
    """Returns the bits of this text: scales that are nearly right are less likely than another rounding rule."""
    core = text.removeprefix("the requantization scale is ").partition(", the result rounded ")[0]
    return prior(text) + (NEARLY_RIGHT if core in near else 0.0)


def _are_near(scales: Array, values: Array) -> bool:
    return bool((np.abs(scales - values) < NEAR * values).all())


def _ways(
    texts: dict[bytes, list[str]], scales: dict[bytes, Array], values: Array
) -> Iterator[tuple[list[str], Callable[[SummedElements], Array]]]:
    for rule in LAST:
        for key, names in texts.items():
            if rule != EVEN and np.abs(scales[key] - values).max() < SLIGHT * values.min():
                continue  # the rule alone explains as much
            end = finally_rounded(rule)
            way = partial(_scaled, scales=scales[key], rule=RULES[rule])
            yield [f"the requantization scale is {text}{end}" for text in (*_together(names), *names)], way


def _together(texts: list[str]) -> list[str]:
    """Returns a list with one text that names all of these, which narrow the scales of this node in the same way; [] if
    there is only one."""
    if len(texts) < 2:
        return []
    others = [t.removeprefix("kept in ") for t in texts if not BITS.fullmatch(t)]
    bits_by_rule: dict[str, list[int]] = {}
    for match in filter(None, map(BITS.fullmatch, texts)):
        bits_by_rule.setdefault(match[2], []).append(int(match[1]))
    runs = [
        f"{min(n)}{f' to {max(n)}' if len(n) > 1 else ''} significant bits, {cut}" for cut, n in bits_by_rule.items()
    ]
    return [f"kept in too few bits, {ALL}: {'; '.join((runs + others)[:5])}"]


def _narrow(channels: int) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    for text, narrow in FORMATS.items():
        yield f"kept in {text}", narrow
    for cut, rule in CUTS.items():
        for bits in SIGNIFICANT:
            yield f"kept with {bits} significant bits, {cut}", partial(significant, bits=bits, rounded=rule)
        for bits in FRACTION:
            yield f"a multiple of 2^-{bits} (fixed point), {cut}", partial(fixed, bits=bits, rounded=rule)
        if channels > 1:
            for bits in COMMON:
                text = f"a multiplier of {bits} bits with one shift for all channels, {cut}"
                yield text, partial(_common, bits=bits, rule=rule)
    for text, narrow in _POWERS.items():
        yield text, narrow
    for bits in (*range(4, 25),):
        yield f"the reciprocal of a divisor with {bits} significant bits", partial(_reciprocal, bits=bits)
    yield "the reciprocal of a whole divisor", lambda v: (1 / np.rint(1 / v.astype(np.float64))).astype(v.dtype)
    yield (
        "the reciprocal of a divisor in float16",
        lambda v: (1 / np.float64(float16(1 / v))).astype(v.dtype),
    )


def _common(values: Array, bits: int, rule: Rule) -> Array:
    shift = bits - int(np.frexp(np.float64(values.max()))[1])
    return fixed(values, shift, rule)


def _reciprocal(values: Array, bits: int) -> Array:
    return (1 / significant(1 / values.astype(np.float64), bits)).astype(values.dtype)


def _power(values: Array, rule: Rule) -> Array:
    return functions64.exp2(rule(functions64.log2(values.astype(np.float64)))).astype(values.dtype)


_POWERS: dict[str, Callable[[Array], Array]] = {
    "rounded to the nearest power of two": partial(_power, rule=np.rint),
    "cut to the power of two below": partial(_power, rule=np.floor),
    "raised to the power of two above": partial(_power, rule=np.ceil),
}


def _scaled(e: SummedElements, scales: Any, rule: Rule) -> Array:
    channel_scales = scales[e.channel if len(scales) > 1 else 0 * e.channel]
    if rule is np.rint:
        return e.rounded(e.steps(e.acc, channel_scales))
    return e.rounded(e.acc.astype(np.float64) * channel_scales.astype(np.float64), rule)
