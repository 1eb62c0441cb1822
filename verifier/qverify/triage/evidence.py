"""Bits of evidence that the recorded elements of a case give for a cause, beyond those used to choose it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.arithmetic.functions64 import log2_choices
from qverify.triage.case import Case, element_bits

Array = npt.NDArray[Any]
MIN_MARGIN_BITS = 4.0  # of evidence beyond its choices that every cause must have
MIN_COPY_MARGIN_BITS = 16.0  # of evidence beyond its choices that a copy of other values must have
MAX_DEVIATIONS = 4.0  # standard deviations from the expected value that still count as chance


def difference_bits(case: Case) -> float:
    """Returns the information, in bits, of which elements differ and which values they have."""
    return case.compute_once("evidence", lambda: _compute_difference_bits(case))


def _compute_difference_bits(case: Case) -> float:
    """Returns the bits of the places, and for each place those of the surprise of its step among all steps that occur:
    a step of 1 LSB everywhere is little evidence."""
    n, places = case.recorded.size, case.differing
    steps = element_bits(case.recorded)[places].astype(np.int64) - element_bits(case.healthy)[places].astype(np.int64)
    distinct, counts = np.unique(steps, return_counts=True)
    share = counts / len(places)
    values = float(-(counts * functions64.log2(share)).sum()) + len(distinct) * 8.0 * case.recorded.itemsize
    return log2_choices(n, len(places)) + min(values, len(places) * 8.0 * case.recorded.itemsize)


def copy_is_evidence(case: Case, choice: float, free: Array | None = None) -> bool:
    """Returns whether the differing elements give more evidence than the choice of their source costs. They are copies
    of other elements except where the mask `free` is set."""
    moved = case.differing if free is None else case.differing[~free[case.differing]]
    return copied_bits(case, moved) >= choice + MIN_COPY_MARGIN_BITS


def copied_bits(case: Case, places: Array) -> float:
    """Returns the evidence, in bits, that the recorded elements at these places are copies of others. The rarer their
    values are among the computed elements, the more evidence they give."""
    values, counts = np.unique(element_bits(case.healthy), return_counts=True)
    copied = element_bits(case.recorded)[places]
    at = np.minimum(np.searchsorted(values, copied), len(values) - 1)
    most = 8.0 * case.recorded.itemsize
    known = np.minimum(functions64.log2((case.healthy.size + 1) / counts[at]), most)
    return float(np.where(values[at] == copied, known, most).sum())


def garbage_is_evidence(case: Case, choice: float, free: Array) -> bool:
    """Returns whether the positions that differ give more evidence than the choice costs, and the values there are
    unrelated to the computed ones. free: flat mask of the elements where memory keeps its earlier contents; all others
    are as computed."""
    taken = np.count_nonzero(free) * 8.0 * case.recorded.itemsize
    return bool(difference_bits(case) >= taken + choice + MIN_COPY_MARGIN_BITS) and is_unrelated(case, free)


def is_unrelated(case: Case, free: Array) -> bool:
    """Returns whether the recorded elements at the mask `free` are equal to the computed ones, and correlate with them,
    no more than by chance."""
    recorded, computed = case.recorded.reshape(-1)[free], case.healthy.reshape(-1)[free]
    count = len(computed)
    values, counts = np.unique(computed, return_counts=True)
    by_chance = sum(n * float((recorded == v).mean()) for v, n in zip(values, counts, strict=True))
    equal = np.count_nonzero(recorded == computed)
    if equal > by_chance + MAX_DEVIATIONS * float(by_chance) ** 0.5 + 1:
        return False
    a, b = (v.astype(np.float64) - v.astype(np.float64).mean() for v in (recorded, computed))
    spread = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return bool(abs(float((a * b).sum())) <= MAX_DEVIATIONS * spread / count**0.5)
