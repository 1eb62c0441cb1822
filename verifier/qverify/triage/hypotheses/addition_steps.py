"""An addition saturates its sum before the zero point is added, applies a Relu to an operand, has rounded ratios with
an exact constant, or mixes its scales with those of another addition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic.float32 import fma32
from qverify.triage.altered_kernels.addition_terms import (
    AdditionTerms,
    F,
    Round,
    centred,
    compute_addition,
    f32,
    finish,
    folded_sum,
    terms,
    terms_at,
)
from qverify.triage.altered_kernels.narrow_steps import NARROW, half_up, places, significant
from qverify.triage.altered_kernels.rounding_rules import RULES
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "addition-steps"
OPS = ("add",)
MAX_OTHERS = 12  # other additions whose scales are tried
LOOKED_AT = 256
CUTS = ("to nearest (ties to even)", "half up", "half away from zero", "toward zero (truncated)", "down (floor)")
PARTS = {  # of rq: the ratio of the outer operand, of the inner one, the constant
    "the table of the second (inner) operand, fma(B, r2, F),": (1, 2),
    "the constant F that folds the zero points": (2,),
    "the ratio r1 of the first (outer) operand": (0,),
    "the ratio r2 of the second (inner) operand": (1,),
    "both ratios, but not the constant F,": (0, 1),
    "the ratio r1 of the first (outer) operand and the constant F": (0, 2),
}
Ways = Iterator[tuple[float, str, Callable[[AdditionTerms], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op != "add" or len(case.unit.nodes) > 1 or (addition := terms(case)) is None:
        return
    flat = case.differing[np.linspace(0, len(case.differing) - 1, LOOKED_AT).astype(np.int64)]
    recorded, few = element_bits(case.recorded)[flat], terms_at(addition, case, flat)
    for cost, text, way in _ways(case, addition):
        case.count_tried()
        if (element_bits(way(few)) == recorded).all():
            yield FaultVariant(f"add: {text}", partial(compute_addition, way=way), cost)


def _ways(case: Case, addition: AdditionTerms) -> Ways:
    for width in (*range(6, 17), 24):
        half = 1 << width - 1
        ranges = {
            f"saturates to {width} bits ({-half}..{half - 1})": partial(_clipped, low=-half, high=half - 1),
            f"saturates to {1 - half}..{half - 1}": partial(_clipped, low=1 - half, high=half - 1),
            f"saturates to unsigned {width} bits (0..{2 * half - 1})": partial(_clipped, low=0, high=2 * half - 1),
            f"wraps to {width} bits": partial(_wrapped, half=half),
        }
        for phrase, narrow in ranges.items():
            for rule in CUTS:
                text = f"the scaled sum, rounded {rule}, {phrase} before the output zero point is added, and is clipped again after"
                yield (
                    1.5 + (rule != CUTS[0]) + 0.3 * (f"to {1 - half}" in phrase),
                    text,
                    partial(_before_zero, narrow=narrow, rule=RULES[rule]),
                )
    for phrase, which in {"the first (outer)": "a", "the second (inner)": "b", "each": "ab"}.items():
        for limits in ("instead of the limits of the sum", "beside the limits of the sum"):
            text = f"a Relu is applied to {phrase} operand before they are added, {limits}"
            yield 1.5, text, partial(_relu_before, which=which, limited=limits.startswith("beside"))
    if addition.exact:
        yield from _rounded_ratios()
        yield from _yield_scales_of_others(case)


def _before_zero(addition: AdditionTerms, narrow: Round, rule: Round) -> Array:
    if addition.exact:
        steps = folded_sum(addition).astype(np.float64) - addition.zero
    else:
        p, q = centred(addition, np.float64)
        steps = p + q
    return finish(addition, narrow(rule(steps)) + addition.zero)


def _relu_before(addition: AdditionTerms, which: str, limited: bool) -> Array:
    a = np.maximum(addition.a, np.array(addition.za, addition.a.dtype)) if "a" in which else addition.a
    b = np.maximum(addition.b, np.array(addition.zb, addition.b.dtype)) if "b" in which else addition.b
    info = np.iinfo(addition.dtype)
    low, high = (addition.low, addition.high) if limited else (int(info.min), int(info.max))
    changed = replace(addition, a=a, b=b, low=low, high=high)
    return finish(changed, folded_sum(changed))


def _clipped(v: Array, low: int, high: int) -> Array:
    return np.clip(v, low, high)


def _wrapped(v: Array, half: int) -> Array:
    return (v + half) % (2 * half) - half


def _rounded_ratios() -> Ways:
    """Yields faults of ratios with fewer bits, where the constant F is computed from the exact ones."""
    for which, phrase in (
        ((0, 1), "both ratios of scales"),
        ((0,), "the ratio r1 of the first (outer) operand"),
        ((1,), "the ratio r2 of the second (inner) operand"),
    ):
        rare = 0.0 if len(which) == 2 else 1.0
        for name, narrow in NARROW.items():
            yield (
                1.5 + rare,
                f"{phrase} kept in {name}; the constant F is that of the exact ratios",
                partial(_ratios, which=which, narrow=narrow),
            )
        for word, rounded in (("rounded", np.rint), ("rounded half up", half_up), ("cut", np.floor)):
            for k in range(2, 21):
                for text, few in ((f"to multiples of 1/{1 << k}", places), (f"to {k} significant bits", significant)):
                    yield (
                        2.0 + rare + 0.5 * (word == "rounded half up"),
                        f"{phrase} {word} {text}; the constant F is that of the exact ratios",
                        partial(_ratios, which=which, narrow=partial(few, count=k, rounded=rounded)),
                    )


def _with(addition: AdditionTerms, r1: Any, r2: Any, folded: Any) -> Array:
    inner = fma32(addition.b.astype(F), f32(r2), f32(folded))
    return finish(addition, fma32(addition.a.astype(F), f32(r1), inner))


def _ratios(addition: AdditionTerms, which: tuple[int, ...], narrow: Round) -> Array:
    r = [
        float(np.ravel(narrow(np.abs(np.asarray(v))))[0]) * np.sign(v) if k in which else v
        for k, v in enumerate(addition.ratios)
    ]
    return _with(addition, r[0], r[1], addition.folded)


def _yield_scales_of_others(case: Case) -> Ways:
    nodes = [n for n in case.graph.nodes if n.op == "add"]
    own_place = next(i for i, n in enumerate(nodes) if n.name == case.last.name)
    order = sorted(
        (i for i in range(len(nodes)) if i != own_place), key=lambda i: (i != own_place - 1, i != 0, abs(i - own_place))
    )
    for at in order[:MAX_OTHERS]:
        rq = case.graph.constants.get(nodes[at].inputs[2] or "")
        if rq is None or rq.dtype != np.float32:
            continue
        who = {own_place - 1: "the add before it", 0: "the first add", own_place + 1: "the add after it"}.get(
            at, f"an earlier add ({nodes[at].name})" if at < own_place else f"another add ({nodes[at].name})"
        )
        for text, parts in PARTS.items():
            yield 2.0 + (at != own_place - 1), f"{text} is that of {who}", partial(_mixed, rq=rq, parts=parts)


def _mixed(addition: AdditionTerms, rq: Array, parts: tuple[int, ...]) -> Array:
    own_parameters = (addition.ratios[0], addition.ratios[1], addition.folded)
    return _with(addition, *(rq[k] if k in parts else own_parameters[k] for k in range(3)))
