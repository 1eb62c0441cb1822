"""Solves the parameters of a mean that is rounded before it is scaled: its sum is divided by the number of elements, or
multiplied by a reciprocal of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from qverify.arithmetic.forms import Form, MeanFirst, multiplier_of
from qverify.arithmetic.rounding_rules import RULES, round_real, shift_right
from qverify.compare.error_bounds.bounded_values import Array
from qverify.compare.identify.solve import HALVES, Triples, complexity, with_zero

MOST_FRACTION = 8  # fraction bits of a mean that is rounded first
RECIPROCALS = (0, 8, 10, 12, 14, 15, 16, 18, 20, 24, 31)  # bits; 0 for a division
SAME_WITH_ZERO = ("floor", "half up")  # where a whole number may be added before or after a division
ONCE, TWICE = 2.0**-6, 0.26  # steps by which a value that is rounded once, or twice, may be off
FEW = 120  # elements that exclude most forms
MOST_OF_ONE, MOST_FORMS = 6, 120  # forms of one way to round the mean, and in all, that are of use
DIVISIONS = ("floor", "half up", "half away from zero", "toward zero", "half even")


@dataclass(frozen=True)
class Means(Triples):
    """The sums of means. count: the number of elements of each. ratio: the input's scale in steps of the output. stored:
    zero point of the input."""

    count: Array
    ratio: float
    stored: int

    def take(self, at: Array) -> Means:
        """Returns the elements at these positions."""
        scale = {how: s[at] for how, s in self.scale.items()}
        return replace(self, acc=self.acc[at], scale=scale, out=self.out[at], count=self.count[at])

    def compute(self, form: Form) -> Array:
        """Returns the integers that a form gives. Raises KeyError or ValueError for a form that it does not have."""
        first = MeanFirst.parse(form.method)
        if first is None:
            return super().compute(form)
        if form.scales or form.operands:
            raise KeyError(str(form))
        return self.after(first).compute(replace(form, method=""))

    def after(self, first: MeanFirst) -> Triples:
        """Returns the means, rounded first, as sums that are scaled."""
        scale = np.full(self.acc.shape, self.ratio / (1 << first.fraction))
        return Triples(self.divide(first), {"": scale}, self.out, self.zero, self.limits)

    def divide(self, first: MeanFirst) -> Array:
        """Returns the means, with fraction bits, before they are scaled."""
        total = self.acc + (self.count * self.stored if first.stored else 0)
        if first.reciprocal:
            counts, number = np.unique(self.count, return_inverse=True)
            multiplier, shift = multiplier_of(Form("floor", first.reciprocal), 1.0 / counts)
            rest = np.maximum(shift - first.fraction, 0)
            means = shift_right(total * multiplier[number], rest[number], first.rounding)
        else:
            means = round_real((total << first.fraction) / self.count, first.rounding).astype(np.int64)
        return means - ((self.stored << first.fraction) if first.stored else 0)


def solve_means(shown: Sequence[Means], most: int = MOST_FORMS) -> list[Form]:
    """Returns the forms that round a mean first and give every element of all of these, the simplest first, at most about
    `most`."""
    few = [one.take(np.arange(0, one.acc.size, max(1, one.acc.size // FEW))) for one in shown]
    found = list[Form]()
    for first in _firsts():
        once, twice = _rules(few, first)
        if not twice:
            continue
        samples, every = ([one.after(first) for one in some] for some in (few, shown))
        given = (f for f in _thens(once, twice) if all(one.is_given_by(f) for one in (*samples, *every)))
        found += [replace(form, method=str(first)) for form in islice(given, MOST_OF_ONE)]
        if len(found) >= most:
            break
    return sorted(found, key=complexity)


def _firsts() -> Iterator[MeanFirst]:
    """Yields the simplest first: a division to whole numbers."""
    for reciprocal in RECIPROCALS:
        for fraction in range(MOST_FRACTION + 1):
            for stored in (False, True):
                for rule in DIVISIONS:
                    if reciprocal or not stored or rule not in SAME_WITH_ZERO:
                        yield MeanFirst(fraction, rule, reciprocal, stored)


def _rules(some: list[Means], first: MeanFirst) -> tuple[list[str], list[str]]:
    """Returns the rules of the last step that may make the integers of these means, if it rounds once, and if it rounds
    twice. What excludes all comes first in `some` after that: it excludes most of the others, too."""
    low, high, outward, inward = 0.0, 0.0, 0.0, 0.0
    found: tuple[list[str], list[str]] = [], []
    for at, one in enumerate(some):
        inner = (one.out > one.limits[0]) & (one.out < one.limits[1])
        steps = (one.divide(first) * (one.ratio / (1 << first.fraction)))[inner]
        rest = steps - (one.out - one.zero)[inner]
        low, high = min(low, rest.min(initial=0.0)), max(high, rest.max(initial=0.0))
        towards = rest * np.sign(steps)
        outward, inward = max(outward, towards.max(initial=0.0)), min(inward, towards.min(initial=0.0))
        once, twice = (_possible((low, high), (outward, inward), slack) for slack in (ONCE, TWICE))
        found = once, twice
        if not twice:
            some.insert(0, some.pop(at))
            break
    return found


def _possible(ends: tuple[float, float], towards: tuple[float, float], slack: float) -> list[str]:
    """Returns the rules that may leave these rests. ends: the smallest and the largest. towards: the largest away from 0, and
    the largest towards it, which is negative. slack: steps by which what is rounded may be off."""
    (low, high), (outward, inward) = ends, towards
    found = [*HALVES] if low >= -0.5 - slack and high <= 0.5 + slack else []
    found += ["floor"] if low >= -slack and high <= 1 + slack else []
    found += ["ceiling"] if low >= -1 - slack and high <= slack else []
    return found + (["toward zero"] if inward >= -slack and outward <= 1 + slack else [])


def _thens(once: Sequence[str], twice: Sequence[str]) -> Iterator[Form]:
    for rule in once:
        yield from with_zero(Form(rule))
        for bits in range(31, 7, -1):
            yield Form(rule, bits)
            yield Form(rule, bits, cut=True)
    for rule in twice:
        yield from (Form(rule, 31, first=(31, how)) for how in RULES)
