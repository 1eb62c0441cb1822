"""Solves the parameters of an addition's form from operands, ratios and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qverify.arithmetic.forms import EACH, EACH_WHOLE, REFERENCE, ZERO_BIT, Form, exact_code, make_addition_rq
from qverify.arithmetic.operand_steps import OperandSteps
from qverify.arithmetic.requantize import apply_steps, round_by_code
from qverify.arithmetic.rounding_rules import RULES, round_real
from qverify.compare.error_bounds.bounded_values import Array
from qverify.compare.identify.solve import (
    BITS,
    FRACTION,
    HALVES,
    INSIDE,
    MOST_FORMS,
    TOLERANCE,
    Triples,
    complexity,
    with_zero,
)

SAMPLE = 300  # elements of each node by which most forms are excluded
KEPT = range(0, 13)  # fraction bits kept before the last step
WIDTHS = (31, 24, 16, 15, 14, 12, 10, 8)  # bits of multipliers of operands that are scaled by themselves
FRACTIONS = (1, 2, 3, 4, 6, 7, 8, 10, 12, 14, 15, 16)  # bits below a step of the output to which operands are rounded
NARROW = (16, 15, 12, 8)  # those of multipliers of sums that are shifted first
KEPT_OF_OPERANDS = range(1, 9)  # fraction bits kept before an operand is multiplied
FIRST_RULES = ("half up", "floor", "half away from zero", "half even", "toward zero")


@dataclass(frozen=True)
class Additions(Triples):
    """The operands and results of an addition. acc: the first operand without its zero point. second: the other. ratios:
    their scales in steps of the output. scale: unused."""

    second: Array
    ratios: tuple[float, float]

    def take(self, at: Array) -> Additions:
        """Returns the elements at these positions."""
        return replace(self, acc=self.acc[at], second=self.second[at], out=self.out[at])

    def fewest(self) -> Additions:
        """Returns the elements whose operands differ."""
        pairs = np.stack([self.acc, self.second, self.out])
        return self.take(np.unique(pairs, axis=1, return_index=True)[1])

    def compute(self, form: Form) -> Array:
        """Returns the integers that a form gives. Raises KeyError or ValueError for a form that it does not have."""
        total, last = self.before_last(form)
        if last is None:
            value = round_by_code(total, exact_code(replace(form, operands="")), self.zero).astype(np.int64)
        else:
            value = apply_steps(total, last, self.zero, True)
        return np.asarray(np.clip(value + self.zero, *self.limits))

    def before_last(self, form: Form) -> tuple[Array, Array | None]:
        """Returns the sum before it is scaled or rounded, and the parameters of that step, None for the rounding of an
        exact sum. Raises KeyError or ValueError for a form that it does not have."""
        if form.rounding == REFERENCE or form.scales or form.means_divided or form.method:
            raise KeyError(str(form))
        if form.is_exact and form.operands:
            return self._exact_operands(form), np.array([1, 0, 0, _fraction(form), _sum_code(form)])
        rq = make_addition_rq(form, *self.ratios)
        if rq.ndim == 1:
            return self.acc * rq[0] + self.second * rq[1], None
        steps = rq.astype(np.int64)
        return apply_steps(self.acc, steps[0]) + apply_steps(self.second, steps[1]), steps[2]

    def _exact_operands(self, form: Form) -> Array:
        unit = 2.0 ** _fraction(form)
        values = (x * (r * unit) for x, r in zip((self.acc, self.second), self.ratios, strict=True))
        first, second = (round_real(value, form.rounding).astype(np.int64) for value in values)
        return first + second


def _fraction(form: Form) -> int:
    """Returns the fraction bits of operands that are rounded by themselves. Raises KeyError for those in other steps."""
    alone = OperandSteps.parse(form.operands)
    if alone is not None and alone.fraction is None:
        raise KeyError(str(form))
    return alone.fraction or 0 if alone is not None else 0


def _sum_code(form: Form) -> int:
    alone = OperandSteps.parse(form.operands)
    return (RULES.index(alone.rounding) << 8 if alone is not None else 0) | (ZERO_BIT if form.zero_inside else 0)


def solve_additions(shown: Sequence[Additions], most: int = MOST_FORMS) -> list[Form]:
    """Returns the forms that give every element of all of these, the simplest first, at most about `most`."""
    samples = [_choose(one) for one in shown]
    found = list[Form]()
    for form, with_rule in _families():
        rules = _rules(samples, form)
        for made in dict.fromkeys(f for rule in rules for f in _with_zero(with_rule(form, rule))):
            if all(s.is_given_by(made) for s in samples) and all(s.is_given_by(made) for s in shown):
                found.append(made)
        if len(found) >= most:
            break
    return sorted(found, key=complexity)


def _with_zero(form: Form) -> Iterator[Form]:
    """Yields the form, and with the zero point inside if that matters for its last rule."""
    alone = OperandSteps.parse(form.operands)
    if form.operands == EACH_WHOLE or (
        alone is not None and alone.fraction is not None and alone.rounding not in INSIDE
    ):
        yield form
    elif alone is not None and alone.fraction is not None:
        yield from (form, replace(form, zero_inside=True))
    else:
        yield from with_zero(form)


WithRule = Callable[[Form, str], Form]


def _families() -> Iterator[tuple[Form, WithRule]]:
    """Yields forms, the rule of whose last step is not yet known, and what gives them one."""

    def last(form: Form, rule: str) -> Form:
        return replace(form, rounding=rule)

    yield Form("floor"), last
    for cut in (False, True):
        plain = [Form("floor", bits, cut) for bits in BITS] + [Form("floor", fraction=n, cut=cut) for n in FRACTION]
        yield from ((form, last) for form in plain)
        for bits in WIDTHS:
            each = Form("floor", bits, cut, operands=EACH)
            yield each, last
            yield from ((replace(each, first=(bits, how)), last) for how in RULES)
            yield from ((Form("floor", bits, cut, before=(kept, how)), last) for how in RULES for kept in KEPT)
            yield from _onto_larger(bits, cut)
    yield from _rounded_operands()


def _onto_larger(bits: int, cut: bool) -> Iterator[tuple[Form, WithRule]]:
    """Yields forms of operands in steps of the larger of their scales."""

    def last(form: Form, rule: str) -> Form:
        return replace(form, rounding=rule)

    for how in FIRST_RULES:
        form = Form("floor", bits, cut, operands=str(OperandSteps(None, how)))
        yield form, last
        yield from ((replace(form, first=(bits, rule)), last) for rule in ("half up", "floor", "half away from zero"))


def _rounded_operands() -> Iterator[tuple[Form, WithRule]]:
    """Yields forms of operands that are rounded by themselves to parts of a step."""

    def of_sum(form: Form, rule: str) -> Form:
        alone = OperandSteps.parse(form.operands)
        return form if alone is None else replace(form, operands=str(replace(alone, rounding=rule)))

    for fraction in (0, *FRACTIONS):
        operands = str(OperandSteps(fraction, "floor")) if fraction else EACH_WHOLE
        for how in FIRST_RULES:
            yield Form(how, operands=operands), of_sum
            for bits in WIDTHS:
                yield from ((Form(how, bits, cut, operands=operands), of_sum) for cut in (False, True))
                near = Form(how, bits, operands=operands)
                if bits in NARROW and fraction <= 4 and how in FIRST_RULES[:3]:
                    shifts = ((kept, rule) for kept in KEPT_OF_OPERANDS for rule in ("floor", "half up"))
                    yield from ((replace(near, before=before), of_sum) for before in shifts)


def _rules(samples: list[Additions], form: Form) -> list[str]:
    """Returns the rules of the last step that may give these elements."""
    left = [*RULES]
    for at, one in enumerate(samples):
        try:
            total, last = one.before_last(form)
        except (KeyError, ValueError):
            return []
        real = total.astype(np.float64)
        slack = TOLERANCE
        if last is not None:
            multiplier, before, first, shift, _ = (int(v) for v in last)
            real = np.ldexp(real * multiplier, before - first - shift)
            slack += (
                abs(multiplier) * 2.0 ** (max(0, -before) + before - first - shift) * (before < 0)
                + (first > 0) / 2.0**shift
            )
        possible = _possible(one, real, slack)
        left = [rule for rule in left if rule in possible]
        if not left:
            samples.insert(0, samples.pop(at))  # what excludes one form excludes most
            return []
    return left


def _possible(one: Additions, value: Array, slack: float) -> list[str]:
    """Returns the rules by which these values, in steps of the output, may become the integers. slack: by how much they
    may be off."""
    inner = (one.out > one.limits[0]) & (one.out < one.limits[1])
    rest = (value - (one.out - one.zero))[inner]
    low, high = rest.min(initial=0.0), rest.max(initial=0.0)
    found = [*HALVES] if low >= -0.5 - slack and high <= 0.5 + slack else []
    found += ["floor"] if low >= -slack and high <= 1 + slack else []
    found += ["ceiling"] if low >= -1 - slack and high <= slack else []
    return found + (["toward zero"] if low >= -1 - slack and high <= 1 + slack else [])


def _choose(one: Additions) -> Additions:
    """Returns the elements nearest to a tie, those that are not the nearest integer, and some others."""
    if one.acc.size <= SAMPLE:
        return one
    steps = one.acc * one.ratios[0] + one.second * one.ratios[1]
    wrong = np.flatnonzero(np.clip(np.rint(steps) + one.zero, *one.limits) != one.out)
    third = SAMPLE // 3
    tie = np.argpartition(np.abs(steps - np.floor(steps) - 0.5), third)[:third]
    spread = np.arange(0, one.acc.size, max(1, one.acc.size // third))[:third]
    return one.take(np.unique(np.concatenate([wrong[:: max(1, len(wrong) // third)][:third], tie, spread])))
