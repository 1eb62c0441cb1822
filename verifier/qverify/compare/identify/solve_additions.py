"""Solves the parameters of an addition's form from operands, ratios and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qverify.arithmetic.forms import EACH, REFERENCE, Form, make_addition_rq
from qverify.arithmetic.requantize import apply_steps, round_by_code
from qverify.arithmetic.rounding_rules import RULES
from qverify.compare.error_bounds.bounded_values import Array
from qverify.compare.identify.solve import BITS, FRACTION, MOST_FORMS, Triples, complexity, with_zero

SAMPLE = 300  # elements of each node by which most forms are excluded
KEPT = range(0, 13)  # fraction bits kept before the last step


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
        if form.rounding == REFERENCE or form.scales or form.means_divided or form.method:
            raise KeyError(str(form))
        rq = make_addition_rq(form, *self.ratios)
        if rq.ndim == 1:
            value = round_by_code(self.acc * rq[0] + self.second * rq[1], int(rq[2]), self.zero).astype(np.int64)
        else:
            steps = rq.astype(np.int64)
            total = apply_steps(self.acc, steps[0]) + apply_steps(self.second, steps[1])
            value = apply_steps(total, steps[2], self.zero, True)
        return np.asarray(np.clip(value + self.zero, *self.limits))


def solve_additions(shown: Sequence[Additions]) -> list[Form]:
    """Returns the forms that give every element of all of these, the simplest first, at most MOST_FORMS."""
    samples = [_choose(one) for one in shown]
    found = list[Form]()
    for form in _forms():
        if all(s.is_given_by(form) for s in samples) and all(s.is_given_by(form) for s in shown):
            found.append(form)
            if len(found) >= MOST_FORMS:
                break
    return sorted(found, key=complexity)


def _forms() -> Iterator[Form]:
    for rule in RULES:
        yield from with_zero(Form(rule))
        for cut in (False, True):
            plain = [Form(rule, bits, cut) for bits in BITS]
            plain += [Form(rule, fraction=bits, cut=cut) for bits in FRACTION]
            for form in plain:
                yield from with_zero(form)
            for bits in (31, 24, 16, 15, 14, 12, 10, 8):
                for how in RULES:
                    each = Form(rule, bits, cut, operands=EACH)
                    yield from (each, replace(each, first=(bits, how)))
                    yield from (replace(Form(rule, bits, cut), before=(kept, how)) for kept in KEPT)


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
