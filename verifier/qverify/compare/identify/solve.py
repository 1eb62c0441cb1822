"""Solves the parameters of a form from sums, scales and outputs: all forms of one multiplier with at most one shift before
or after it that give every element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qverify.arithmetic.forms import EACH, REFERENCE, SCALES, Form, multiplier_of
from qverify.arithmetic.requantize import scale_sums
from qverify.arithmetic.rounding_rules import RULES, shift_right
from qverify.compare.error_bounds.bounded_values import Array, Reals

SAMPLE = 1500  # elements by which most forms are excluded
MOST_KEPT = 12  # fraction bits that may be kept before the multiplication
BITS, FRACTION = range(31, 3, -1), range(30, 3, -1)
TWICE = (31, 30, 15, 16, 8, 24)  # bits by which a product may be shifted first, at most those of the multiplier
WIDTHS = (31, 30, 28, 26, 24, 22, 20, 18, 16, 15, 14, 13, 12, 11, 10)  # of multipliers of neighbours
TOLERANCE = 1e-9  # of a step of the output
MOST_FORMS = 400  # that are of use
HALVES = tuple(r for r in RULES if r.startswith("half"))
INSIDE = ("half even", "half away from zero", "toward zero")  # rules for which it matters when the zero point is added


@dataclass(frozen=True)
class Triples:
    """The sums and results of a node: sums, the scale of each in steps of the output, and the stored integers.

    Attributes:
        acc: int64.
        scale: float64, of each sum, by the way in which it was computed ("" or one of SCALES).
        out: the stored integers.
        zero: zero point of the output.
        limits: the smallest and the largest integer.
    """

    acc: Array
    scale: dict[str, Reals]
    out: Array
    zero: int
    limits: tuple[int, int]

    def take(self, at: Array) -> Triples:
        """Returns the elements at these positions."""
        scale = {how: s[at] for how, s in self.scale.items()}
        return replace(self, acc=self.acc[at], scale=scale, out=self.out[at])

    def fewest(self) -> Triples:
        """Returns, of each scale and integer, the smallest and the largest sum, which stand for all: every form rises with
        the sum."""
        keys = np.stack([np.unique(s, return_inverse=True)[1] for s in self.scale.values()])
        number = np.ravel_multi_index(tuple(keys), tuple(keys.max(1, initial=0) + 1))
        order = np.lexsort((self.acc, self.out, number))
        first = np.ones(order.size, bool)
        first[1:] = (np.diff(number[order]) != 0) | (np.diff(self.out[order]) != 0)
        last = np.roll(first, -1)
        return self.take(order[first | last])

    def is_given_by(self, form: Form) -> bool:
        """Returns whether the form gives every element; not if it cannot represent a scale."""
        return not self.count_wrong(form)

    def count_wrong(self, form: Form) -> int:
        """Returns how many elements the form does not give; all of them if it cannot represent a scale."""
        try:
            return int(np.count_nonzero(self.compute(form) != self.out))
        except (KeyError, ValueError):
            return max(1, self.acc.size)

    def compute(self, form: Form) -> Array:
        """Returns the integers that a form gives. Raises KeyError or ValueError for a form that these scales do not
        have."""
        if form.operands == EACH or form.rounding == REFERENCE or form.means_divided or form.method:
            raise KeyError(str(form))
        value = scale_sums(form, self.acc, self.scale[form.scales], self.zero)
        return np.asarray(np.clip(value + self.zero, *self.limits))


def solve(triples: Sequence[Triples], most: int = MOST_FORMS) -> list[Form]:
    """Returns the forms that give every element of all of these, the simplest first, at most `most`."""
    if not triples:
        return []
    small = _Sample(triples)
    found = list[Form]()
    for form in small.forms():
        if all(t.is_given_by(form) for t in triples):
            found.append(form)
            if len(found) >= most:
                break
    return sorted(found, key=complexity)


def complexity(form: Form) -> tuple[float, ...]:
    """Returns a number by which simpler forms come first: fewer steps, then usual widths."""
    steps = 2 * (form.before is not None) + 2 * (form.first is not None) + form.cut + (form.bits == 1)
    steps += 2 * bool(form.operands) + bool(form.scales) + form.zero_inside + (3 if "reciprocal" in form.method else 0)
    usual = (0, 31, 15, 16, 8, 24, 1)
    width = form.bits or form.fraction
    return (
        steps,
        form.fraction > 0,
        usual.index(width) if width in usual else len(usual),
        -width,
        HALVES.index(form.rounding) if form.rounding in HALVES else len(HALVES),
    )


def neighbours(form: Form) -> list[Form]:
    """Returns forms that differ from one in the width of the multiplier and in what is rounded before the last step, and
    may give the same integers on few data."""
    rules = dict.fromkeys([form.rounding, "half up"] if form.rounding in RULES else HALVES)
    found = []
    for rule in rules:
        plain = Form(rule, scales=form.scales, zero_inside=form.zero_inside)
        for cut in (False, True):
            widths = [replace(plain, bits=n, cut=cut) for n in WIDTHS]
            found += [*widths, *(replace(plain, fraction=n, cut=cut) for n in (8, 10, 12, 14, 16, 20, 24))]
        for bits in (16, 31):
            wide = replace(plain, bits=bits)
            found += [replace(wide, before=(n, how)) for n in (4, 8, 12) for how in ("floor", "half up")]
            found += [replace(wide, first=(n, how)) for n in (bits - 1, bits) for how in ("floor", "half up")]
    if not form.is_exact and form.operands in ("", EACH):  # of an addition
        found.insert(0, replace(form, operands="" if form.operands else EACH))
    return [f for f in dict.fromkeys(found) if f != form]


class _Sample:
    """The elements that exclude most forms: those nearest to a tie, those that are not the nearest integer, and some
    others."""

    def __init__(self, triples: Sequence[Triples]):
        each = max(64, SAMPLE // len(triples))
        parts = [_choose(t, each) for t in triples]
        self._parts = parts
        self._acc = np.concatenate([p.acc for p in parts])
        self._value = np.concatenate([p.out.astype(np.int64) - p.zero for p in parts])
        self._zero = np.concatenate([np.full(p.acc.size, p.zero) for p in parts])
        ends = np.concatenate([(p.out == p.limits[0]) * -1 + (p.out == p.limits[1]) for p in parts])
        self._inner, self._low, self._high = ends == 0, ends < 0, ends > 0
        every = [h for h in ("", *SCALES) if all(h in p.scale for p in parts)]
        self._scales = {how: np.concatenate([p.scale[how] for p in parts]) for how in every}

    def forms(self) -> Iterator[Form]:
        """Yields the forms that give every element of the sample."""
        for form in self._likely():
            if all(p.is_given_by(form) for p in self._parts):
                yield form

    def _likely(self) -> Iterator[Form]:
        for how in self._scales:
            for rule in RULES:
                yield from with_zero(Form(rule, scales=how))
            for form in _multipliers():
                yield from self._around(replace(form, scales=how))

    def _around(self, form: Form) -> Iterator[Form]:
        """Yields forms with this multiplier."""
        scale = self._scales[form.scales]
        unique, number = self._unique[form.scales]
        try:
            multiplier, shift = (part[number] for part in multiplier_of(form, unique))
        except ValueError:
            return
        exponent = np.frexp(scale)[1].astype(np.int64)
        product = self._acc.astype(np.float64) * multiplier
        for rule in self._rules(np.ldexp(product, -shift)):
            yield from with_zero(replace(form, rounding=rule))
        yield from self._twice(form, product, shift)
        for kept in range(MOST_KEPT + 1):
            before = np.maximum(1 - exponent - kept, 0)
            if not before.any():
                break
            after = np.maximum(shift - before, 0)
            for how in RULES:
                value = self._shifted(form.scales, kept, how, before).astype(np.float64) * multiplier
                for rule in self._rules(np.ldexp(value, -after)):
                    yield from with_zero(replace(form, rounding=rule, before=(kept, how)))

    def _twice(self, form: Form, product: Reals, shift: Array) -> Iterator[Form]:
        """Yields forms whose product is shifted twice."""
        every = (
            *(n for n in TWICE if form.fraction or n <= form.bits),
            *(n for n in (form.bits, form.bits - 1) if n > 1),
        )
        for bits in dict.fromkeys(every):
            unit = np.ldexp(1.0, np.minimum(bits - shift, 40))  # of the first shift, in steps of the output
            if 2 * np.count_nonzero(shift >= bits) < shift.size:
                continue
            slack = np.minimum(unit, 1.0)  # where nothing is left to shift, the first rule decides
            for rule in self._rules(np.ldexp(product, -shift), slack):
                for how in RULES:
                    yield from with_zero(replace(form, rounding=rule, first=(bits, how)))

    @cached_property
    def _unique(self) -> dict[str, tuple[Reals, Array]]:
        return {how: np.unique(s, return_inverse=True) for how, s in self._scales.items()}

    @cached_property
    def _kept(self) -> dict[tuple[str, int, str], Array]:
        return {}

    def _shifted(self, scales: str, kept: int, rule: str, before: Array) -> Array:
        key = (scales, kept, rule)
        if key not in self._kept:
            self._kept[key] = shift_right(self._acc, np.minimum(before, 62), rule)
        return self._kept[key]

    def _rules(self, value: Reals, slack: Reals | float = 0.0) -> Iterator[str]:
        """Yields the rules by which these values, in steps of the output, may become the recorded integers. slack: by how
        much they may be off."""
        rest = value - self._value
        most = slack + TOLERANCE
        below, above = rest < -most, rest > most  # the output is above, or below, the value
        low, high = np.where(self._low, 0.0, rest), np.where(self._high, 0.0, rest)  # an end of the range hides it
        if (low >= -0.5 - most).all() and (high <= 0.5 + most).all():
            yield from HALVES
        inner = self._inner
        if (inner & (np.abs(rest) >= 1.0 + most)).any():
            return
        if not (inner & below).any():
            yield "floor"
        if not (inner & above).any():
            yield "ceiling"
        away = (self._value > 0) & below | (self._value < 0) & above
        inside = self._value + self._zero
        if not (inner & away).any() or not (inner & ((inside > 0) & below | (inside < 0) & above)).any():
            yield "toward zero"


def _multipliers() -> Iterable[Form]:
    for cut in (False, True):
        yield from (Form("floor", bits, cut) for bits in BITS)
        yield from (Form("floor", fraction=bits, cut=cut) for bits in FRACTION)
        yield Form("floor", 1, cut)


def with_zero(form: Form) -> Iterator[Form]:
    """Yields the form, and with the zero point inside if that matters for its rule."""
    yield form
    if form.rounding in INSIDE:
        yield replace(form, zero_inside=True)


def _choose(triples: Triples, most: int) -> Triples:
    if triples.acc.size <= most:
        return triples
    steps = triples.acc * triples.scale[""]
    nearest = np.clip(np.rint(steps) + triples.zero, *triples.limits)
    wrong = np.flatnonzero(nearest != triples.out)
    third = most // 3
    tie = np.argpartition(np.abs(steps - np.floor(steps) - 0.5), third)[:third]
    spread = np.arange(0, triples.acc.size, max(1, triples.acc.size // third))[:third]
    return triples.take(np.unique(np.concatenate([wrong[:: max(1, len(wrong) // third)][:third], tie, spread])))
