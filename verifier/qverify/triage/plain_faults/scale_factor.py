"""A scale is wrong by any factor (that of one operand, of the result, of one channel, or the slope of negative values), or
a constant is added before rounding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.triage.altered_kernels.scaled_terms import ScaledTerm, find_one_channel, is_healthy, scaled_terms
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "scale-factor"
# LSB beyond half a step in which a value may lie before it is rounded: away from ties, at ties, and for a runtime that
# rounds in its own way
SLACKS = (-(2.0**-9), 2.0**-7, 1.0)
WIDEST, FINEST = 3.0, 2.0**-30  # of the interval of factors: one wider than this shows nothing
PARTS = tuple(2**k for k in range(9))  # denominators of fractions


def variants(case: Case) -> Iterator[FaultVariant]:
    channel = find_one_channel(case)
    for number, term in enumerate(scaled_terms(case, channel)):
        if not is_healthy(case, term):
            continue
        named = dict[str, FaultVariant]()
        for found in filter(None, (_find_factor(case, term, slack) for slack in SLACKS)):
            low, high = (end * term.value - term.offset for end in found)
            bits = 2.0 + max(1.0, log2_of(WIDEST / max(found[1] - found[0], FINEST)))
            for value, words in _name_numbers(low, high, term.value != 1.0):
                make = partial(_scaled, number=number, value=value, channel=channel)
                named[words] = FaultVariant(term.describe(words), make, bits)
        yield from named.values()


def _scaled(case: Case, number: int, value: float, channel: int | None) -> Array:
    """Returns the output with another value of a term."""
    term = scaled_terms(case, channel)[number]
    return term.output((value + term.offset) / term.value)


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


def _name_numbers(low: float, high: float, with_fraction: bool) -> Iterator[tuple[float, str]]:
    """Yields numbers between these limits, or at them, each in words: a fraction of a power of two, as a chip keeps a
    slope, if it is wanted and one is near, then the one with the fewest digits."""
    middle, reach = (low + high) / 2, high - low
    for part in PARTS if with_fraction else ():
        whole = round(middle * part)
        if whole and abs(whole / part - middle) <= reach:
            yield whole / part, f"{whole / part:.7g} ({whole}/{part})"
            break
    number = choose_number(low, high)
    yield number, f"{number:g}"
