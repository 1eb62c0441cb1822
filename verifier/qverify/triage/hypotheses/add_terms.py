"""An addition computes its two scaled terms in another way: each is rounded separately, products are rounded before the
sum, scales or an intermediate result have fewer bits, the arithmetic is fixed point, or the zero points are handled
separately."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

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
from qverify.triage.altered_kernels.narrow_steps import NARROW, TO_INTEGER, half_up, places, significant
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "add-terms"
OPS = ("add",)
CENTRED = "(A - za) * r1 + (B - zb) * r2 + zc"


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op != "add" or len(case.unit.nodes) > 1:
        return
    addition = terms(case)
    if addition is None:
        return
    few = case.differing[_few(case)]
    recorded, sample = element_bits(case.recorded)[few], terms_at(addition, case, few)
    for cost, text, way in _ways(addition):
        if _gives(way, sample, recorded):
            yield FaultVariant(f"add: {text}", partial(compute_addition, way=way), cost)


def _gives(way: Callable[[AdditionTerms], Array], sample: AdditionTerms, recorded: Array) -> bool:
    try:
        return bool((element_bits(way(sample)) == recorded).all())
    except ValueError:
        return False


def _few(case: Case) -> Array:
    return np.linspace(0, len(case.differing) - 1, min(len(case.differing), 256)).astype(np.int64)


Ways = Iterator[tuple[float, str, Callable[[AdditionTerms], Array]]]


def _ways(addition: AdditionTerms) -> Ways:
    yield from _apart(addition)
    yield from _sums(addition)
    yield from _scales(addition)
    yield from _fixed_point(addition)


def _apart(addition: AdditionTerms) -> Ways:
    """Yields faults in which each term is rounded separately."""
    rare = 0.0
    for phrase, first in TO_INTEGER.items():
        yield (
            1.0 + rare,
            f"each scaled operand is {phrase} to an integer by itself before the two are added: {CENTRED}",
            partial(_rounded_apart, first=first, second=first),
        )
        rare += 0.1
    for phrase, first in TO_INTEGER.items():
        for which in (0, 1):
            ways = (first, None) if which == 0 else (None, first)
            name = _names(addition)[which]
            text = f"the scaled {name} operand alone is {phrase} to an integer before the two are added"
            yield 2.0 + rare, text, partial(_rounded_apart, first=ways[0], second=ways[1])
    for k in range(1, 9):
        for phrase, rounded in (("rounded", np.rint), ("truncated", np.trunc), ("cut down (floor)", np.floor)):
            text = f"each scaled operand is {phrase} to {k} binary places before the two are added"
            fewer = partial(places, count=k, rounded=rounded)
            yield 3.0, text, partial(_rounded_apart, first=fewer, second=fewer)
    for phrase, narrow in NARROW.items():
        yield (
            2.5,
            f"each scaled operand is kept in {phrase} before the two are added",
            partial(_rounded_apart, first=narrow, second=narrow),
        )
    text = "each scaled operand, rounded to an integer, saturates to -128..127 before the two are added"
    yield 3.0, text, partial(_rounded_apart, first=_saturated, second=_saturated)


def _names(addition: AdditionTerms) -> tuple[str, str]:
    return ("first (outer)", "second (inner)") if addition.exact else ("first", "second")


def _saturated(v: Array) -> Array:
    return np.clip(np.rint(v), -128, 127)


def _rounded_apart(addition: AdditionTerms, first: Round | None, second: Round | None) -> Array:
    p, q = centred(addition, F if addition.exact else np.float64)
    p, q = first(p) if first else p, second(q) if second else q
    return finish(addition, np.rint(p + q) + addition.zero)


def _sums(addition: AdditionTerms) -> Ways:
    """Yields faults in which the sum is computed or rounded in another way."""
    yield (
        1.0,
        "the products are rounded to float32 before they are added (multiplication and addition apart, not fused)",
        _unfused,
    )
    yield (
        2.0,
        "the product of the inner operand only is rounded before its addition (not fused)",
        partial(_unfused, outer=False),
    )
    yield (
        2.0,
        "the product of the outer operand only is rounded before its addition (not fused)",
        partial(_unfused, inner=False),
    )
    yield 2.0, f"the zero points are subtracted first, in float32: {CENTRED}", partial(_plain, dtype=F, rounded=np.rint)
    yield (
        2.0,
        f"the zero points are subtracted first, in float64: {CENTRED}",
        partial(_plain, dtype=np.float64, rounded=np.rint),
    )
    for text, rounded in TO_INTEGER.items():
        yield 1.5, f"the sum is {text}, the zero point included", partial(_folded, rounded=rounded)
        yield (
            1.5,
            f"the sum is {text} before the zero point is added",
            partial(_plain, dtype=F if addition.exact else np.float64, rounded=rounded),
        )
    for text, narrow in NARROW.items():
        yield (
            1.5,
            f"the partial result B * r2 + F (the inner operand and all zero points) is kept in {text} before A * r1 is added",
            partial(_narrow, inner=narrow),
        )
        yield 2.0, f"the sum is kept in {text} before it is rounded to an integer", partial(_narrow, total=narrow)
        yield 2.5, f"the partial result and the sum are kept in {text}", partial(_narrow, inner=narrow, total=narrow)
        yield 2.5, f"the constant F that folds the zero points is kept in {text}", partial(_narrow, constant=narrow)
    for text, rounded in TO_INTEGER.items():
        yield (
            2.0,
            f"the constant F that folds the zero points is {text} to an integer",
            partial(_narrow, constant=rounded),
        )
        yield (
            2.5,
            f"the partial result B * r2 + F is {text} to an integer before A * r1 is added",
            partial(_narrow, inner=rounded),
        )
    yield from _fixed(addition)


def _fixed(addition: AdditionTerms) -> Ways:
    """Yields faults of partial results with few bits, and of wrong operands, zero points or scales."""
    for k in range(1, 17):
        for text, rounded in (("rounded to the nearest", np.rint), ("rounded down", np.floor), ("truncated", np.trunc)):
            narrow = partial(places, count=k, rounded=rounded)
            yield (
                3.0,
                f"the partial result B * r2 + F is {text} to a multiple of 1/{1 << k} before A * r1 is added",
                partial(_narrow, inner=narrow),
            )
            yield (
                3.5,
                f"the constant F that folds the zero points is {text} to a multiple of 1/{1 << k}",
                partial(_narrow, constant=narrow),
            )
    for k in range(7, 20):
        narrow = partial(significant, count=k)
        yield 3.5, f"the partial result B * r2 + F keeps {k} significant bits", partial(_narrow, inner=narrow)
    for which, name in enumerate(_names(addition)):
        for sign in ("unsigned", "signed", "inverted"):
            how = "with its highest bit inverted (128 added or taken)" if sign == "inverted" else f"as {sign} bytes"
            yield 2.0, f"the {name} operand is read {how}", partial(_resigned, which=which, sign=sign)
    yield 3.0, "the operands are exchanged, each with the scale of the other", _exchanged
    yield 3.0, "the second operand is added where it should be subtracted, or the other way", _negated
    yield 3.0, "the activation limits are applied before the output zero point is added", _clipped_early
    yield 3.0, "the output zero point is not added", partial(_moved, by=-addition.zero)
    yield 3.0, "the first operand's zero point is not subtracted", partial(_without_zero, which=0)
    yield 3.0, "the second operand's zero point is not subtracted", partial(_without_zero, which=1)
    yield 3.0, "both operands are read with the scale of the first", partial(_one_scale, which=0)
    yield 3.0, "both operands are read with the scale of the second", partial(_one_scale, which=1)


def _folded(addition: AdditionTerms, rounded: Round) -> Array:
    return finish(addition, folded_sum(addition).astype(np.float64), rounded)


def _unfused(addition: AdditionTerms, inner: bool = True, outer: bool = True) -> Array:
    a, b, r1, r2 = addition.a.astype(F), addition.b.astype(F), f32(addition.ratios[0]), f32(addition.ratios[1])
    if not addition.exact:
        return _plain(addition, F, np.rint)
    second = b * r2 + addition.folded if inner else fma32(b, r2, f32(addition.folded))
    total = a * r1 + second if outer else fma32(a, r1, second)
    return finish(addition, total)


def _plain(addition: AdditionTerms, dtype: type, rounded: Round) -> Array:
    p, q = centred(addition, dtype)
    return finish(addition, rounded(p + q) + addition.zero)


def _narrow(
    addition: AdditionTerms, inner: Round | None = None, total: Round | None = None, constant: Round | None = None
) -> Array:
    if addition.exact:
        folded = constant(np.asarray(addition.folded)) if constant else np.asarray(addition.folded)
        second = fma32(addition.b.astype(F), f32(addition.ratios[1]), np.asarray(folded, F))
        second = np.asarray(inner(second), F) if inner else second
        value = fma32(addition.a.astype(F), f32(addition.ratios[0]), second)
    else:
        p, q = centred(addition, np.float64)
        value = p + (inner(q) if inner else q) + addition.zero
    return finish(addition, np.asarray(total(value)) if total else value)


def _resigned(addition: AdditionTerms, which: int, sign: str) -> Array:
    value = (addition.a, addition.b)[which]
    if value.dtype.itemsize > 1:
        raise ValueError("not of 8 bits")
    if sign == "inverted":
        changed = (np.ascontiguousarray(value).view(np.uint8) ^ 128).view(value.dtype)
    else:
        changed = np.ascontiguousarray(value).view(np.uint8 if sign == "unsigned" else np.int8)
    return _folded(replace(addition, a=changed) if which == 0 else replace(addition, b=changed), np.rint)


def _exchanged(addition: AdditionTerms) -> Array:
    p = (addition.a.astype(np.int64) - addition.zb) * addition.ratios[1] + (
        addition.b.astype(np.int64) - addition.za
    ) * addition.ratios[0]
    return finish(addition, np.rint(p) + addition.zero)


def _negated(addition: AdditionTerms) -> Array:
    p, q = centred(addition, np.float64)
    return finish(addition, np.rint(p - q) + addition.zero)


def _clipped_early(addition: AdditionTerms) -> Array:
    p, q = centred(addition, np.float64)
    return finish(addition, np.clip(np.rint(p + q), addition.low, addition.high) + addition.zero)


def _moved(addition: AdditionTerms, by: int) -> Array:
    p, q = centred(addition, np.float64)
    return finish(addition, np.rint(p + q) + addition.zero + by)


def _without_zero(addition: AdditionTerms, which: int) -> Array:
    p, q = centred(addition, np.float64)
    return finish(addition, np.rint(p + q + (addition.za, addition.zb)[which] * addition.ratios[which]) + addition.zero)


def _one_scale(addition: AdditionTerms, which: int) -> Array:
    total = (addition.a.astype(np.int64) - addition.za + addition.b.astype(np.int64) - addition.zb) * addition.ratios[
        which
    ]
    return finish(addition, np.rint(total) + addition.zero)


def _scales(addition: AdditionTerms) -> Ways:
    """Yields faults in which the two scale ratios have fewer bits; the zero points are handled exactly."""
    for which, text in (
        ((0, 1), "both scale ratios"),
        ((0,), "the first operand's scale ratio"),
        ((1,), "the second operand's scale ratio"),
    ):
        rare = 0.0 if len(which) == 2 else 1.0
        for name, narrow in NARROW.items():
            yield 1.5 + rare, f"{text} kept in {name}", partial(_by_scales, which=which, narrow=narrow)
        for k in range(2, 25):
            for word, rounded in (("rounded to", np.rint), ("cut to", np.floor)):
                yield (
                    2.5 + rare,
                    f"{text} {word} {k} significant bits",
                    partial(_by_scales, which=which, narrow=partial(significant, count=k, rounded=rounded)),
                )
                if k < 21:
                    yield (
                        2.5 + rare,
                        f"{text} {word} a multiple of 1/{1 << k}",
                        partial(_by_scales, which=which, narrow=partial(places, count=k, rounded=rounded)),
                    )


def _by_scales(addition: AdditionTerms, which: tuple[int, ...], narrow: Round) -> Array:
    size = [narrow(np.abs(np.asarray(r))) * np.sign(r) if k in which else r for k, r in enumerate(addition.ratios)]
    p = (addition.a.astype(np.int64) - addition.za) * np.float64(size[0]) + (
        addition.b.astype(np.int64) - addition.zb
    ) * np.float64(size[1])
    return finish(addition, np.rint(p) + addition.zero)


def _fixed_point(addition: AdditionTerms) -> Ways:
    """Yields faults of integer multipliers with k bits after the point and one shift at the end."""
    for k in range(4, 21):
        for word, scale in (("rounded", half_up), ("cut", np.floor)):
            for phrase, half in ((" with half added (ties up)", True), (" (floor)", False)):
                text = f"fixed point: the ratios are {word} to multiples of 1/{1 << k}, the sum of the integer products is shifted right by {k}{phrase}"
                yield 2.5, text, partial(_shifted, k=k, scale=scale, half=half, apart=False)
                apart = f"fixed point: the ratios are {word} to multiples of 1/{1 << k}, each product is shifted right by {k}{phrase} before the two are added"
                yield 2.5, apart, partial(_shifted, k=k, scale=scale, half=half, apart=True)


def _shifted(addition: AdditionTerms, k: int, scale: Round, half: bool, apart: bool) -> Array:
    m = [int(scale(np.abs(r) * 2.0**k)) * (1 if r > 0 else -1) for r in addition.ratios]
    p, q = (addition.a.astype(np.int64) - addition.za) * m[0], (addition.b.astype(np.int64) - addition.zb) * m[1]
    more = 1 << k - 1 if half else 0
    total = (p + more >> k) + (q + more >> k) if apart else p + q + more >> k
    return finish(addition, total + addition.zero)
