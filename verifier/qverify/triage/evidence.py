"""How many bits of evidence a case's recorded elements give for a cause, beyond those used to choose it."""

from __future__ import annotations

from math import lgamma, log
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.case import Case, bits

Array = npt.NDArray[Any]
LEAST = 4.0  # bits of evidence beyond its choices that any cause must have, of some thirty families
CHANCE = 16.0  # bits of evidence beyond its choices that a copy of other values must have
FAR = 4.0  # standard deviations from what chance gives


def difference_bits(case: Case) -> float:
    """Returns the information, in bits, of which elements differ and which values are there."""
    return case.compute_once("evidence", lambda: _in_all(case))


def _in_all(case: Case) -> float:
    """The places, and for each the surprise of its step among the steps there are: 1 LSB everywhere says little."""
    n, places = case.recorded.size, case.differing
    steps = bits(case.recorded)[places].astype(np.int64) - bits(case.healthy)[places].astype(np.int64)
    distinct, counts = np.unique(steps, return_counts=True)
    share = counts / len(places)
    values = float(-(counts * np.log2(share)).sum()) + len(distinct) * 8.0 * case.recorded.itemsize
    return log2_choices(n, len(places)) + min(values, len(places) * 8.0 * case.recorded.itemsize)


def log2_choices(n: int, k: int) -> float:
    """Returns log2 of the number of ways to choose k out of n."""
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def copy_is_evidence(case: Case, choice: float, free: Array | None = None) -> bool:
    """Returns whether the differing elements, copies of others except where free, give more evidence than the choice of
    the source cost."""
    moved = case.differing if free is None else case.differing[~free[case.differing]]
    return copied_bits(case, moved) >= choice + CHANCE


def copied_bits(case: Case, places: Array) -> float:
    """Returns the evidence, in bits, of the recorded elements at places as copies of others. The rarer their values are
    among the computed elements, the more evidence they give."""
    values, counts = np.unique(bits(case.healthy), return_counts=True)
    copied = bits(case.recorded)[places]
    at = np.minimum(np.searchsorted(values, copied), len(values) - 1)
    most = 8.0 * case.recorded.itemsize
    known = np.minimum(np.log2((case.healthy.size + 1) / counts[at]), most)
    return float(np.where(values[at] == copied, known, most).sum())


def garbage_is_evidence(case: Case, choice: float, free: Array) -> bool:
    """Returns whether the positions that differ give more evidence than the choice cost, and the values there are
    unrelated to the computed ones. free: flat mask of the elements left over in memory from before; all others are as
    computed."""
    taken = np.count_nonzero(free) * 8.0 * case.recorded.itemsize
    return bool(difference_bits(case) >= taken + choice + CHANCE) and unrelated(case, free)


def unrelated(case: Case, free: Array) -> bool:
    """Returns whether the recorded elements at free equal the computed ones, and correlate with them, only by
    chance."""
    recorded, made = case.recorded.reshape(-1)[free], case.healthy.reshape(-1)[free]
    count = len(made)
    values, of_made = np.unique(made, return_counts=True)
    by_chance = sum(n * float((recorded == v).mean()) for v, n in zip(values, of_made, strict=True))
    equal = np.count_nonzero(recorded == made)
    if equal > by_chance + FAR * float(by_chance) ** 0.5 + 1:
        return False
    a, b = (v.astype(np.float64) - v.astype(np.float64).mean() for v in (recorded, made))
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return bool(abs(float(a @ b)) <= FAR * spread / count**0.5)
