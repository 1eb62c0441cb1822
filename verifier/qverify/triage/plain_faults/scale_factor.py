"""A scale is wrong by any factor: that of one operand, of the result, of one channel, or the slope of negative values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.triage.altered_kernels.scaled_terms import ScaledTerm, scaled_terms
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "scale-factor"
TIE = 2.0**-7  # LSB by which a value before rounding may be known too little
NEAR = 1.0  # LSB by which a runtime that rounds in its own way may be off
WIDEST, FINEST = 3.0, 2.0**-30  # of the interval of factors: one wider than this shows nothing
PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # denominators of fractions that are named beside a decimal number


def variants(case: Case) -> Iterator[FaultVariant]:
    for number, term in enumerate(scaled_terms(case)):
        found = _find_factor(case, term, TIE) or _find_factor(case, term, NEAR)
        if found is None:
            continue
        low, high = found
        value = choose_number(low * term.value, high * term.value)
        bits = 2.0 + max(1.0, log2_of(WIDEST / max(high - low, FINEST)))
        text = term.describe(_with_fraction(value, low * term.value, high * term.value))
        yield FaultVariant(text, partial(_scaled, number=number, factor=value / term.value), bits)


def _scaled(case: Case, number: int, factor: float) -> Array:
    """Returns the output with a term that is multiplied by the factor."""
    terms = scaled_terms(case)
    if number >= len(terms):
        raise ValueError("the unit has no such term on these inputs")
    return terms[number].output(factor)


def _find_factor(case: Case, term: ScaledTerm, slack: float) -> tuple[float, float] | None:
    """Returns the limits of the factors with which every recorded element is within half a step and `slack` of what the
    term gives; None if there are none, or if they show nothing."""
    for places in (np.flatnonzero(term.scaled), case.differing):
        recorded = case.recorded.reshape(-1)[places].astype(np.float64)
        scaled, fixed = term.scaled[places], term.fixed[places]
        inside = (recorded > term.low) & (recorded < term.high) & (scaled != 0)
        if not inside.any():
            return None
        middle, scaled = (recorded - term.zero_point - fixed)[inside], scaled[inside]
        ends = np.stack([(middle - 0.5 - slack) / scaled, (middle + 0.5 + slack) / scaled])
        low, high = float(ends.min(0).max()), float(ends.max(0).min())
        if low <= high and not low <= 1.0 <= high and high - low < WIDEST:
            return low, high
    return None


def choose_number(low: float, high: float) -> float:
    """Returns the number between these limits that has the fewest digits, the nearest to their middle of several."""
    middle = (low + high) / 2
    for digits in range(-3, 12):
        number = round(middle, digits)
        if low <= number <= high:
            return float(number)
    return middle


def _with_fraction(value: float, low: float, high: float) -> str:
    """Returns the number in words, with the fraction of a power of two that lies between the limits, if there is one."""
    text = f"{value:g}"
    for part in PARTS:
        whole = round(value * part)
        if part > 1 and whole and low <= whole / part <= high and whole / part != value:
            return f"{text} ({whole}/{part})"
        if whole == value * part:
            return text
    return text
