"""Whether a wrong step is the right step of other inputs: of the state of the step before, of none, of another step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qverify.sequences.slots import MIN_BITS, NEAR, evidence
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array


def explains(given: Mapping[str, Array], right: Mapping[str, Array], other: Mapping[str, Array]) -> str:
    """Returns how well the outputs of another run explain those of a side: "exactly", "nearly" (what is left of each output is at
    most a sixteenth of its largest difference), or "". given: the side's outputs. right: those that are expected."""
    names = [n for n in given if n in right and n in other]
    if not names or any(a.shape != given[n].shape for n in names for a in (right[n], other[n])):
        return ""
    if any(a.dtype != given[n].dtype or a.dtype.kind not in "iuf" for n in names for a in (right[n], other[n])):
        return ""
    if sum(evidence(given[n], right[n]) for n in names) < MIN_BITS:
        return ""
    is_exact = True
    for name in names:
        left, before = (_largest(given[name], a[name]) for a in (other, right))
        if not np.isfinite(left) or left > NEAR * before:
            return ""
        is_exact = is_exact and left == 0
    return "exactly" if is_exact else "nearly"


def _largest(a: Array, b: Array) -> float:
    """Returns the largest difference of real values, infinity where one is not finite."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(to_float64(a) - to_float64(b))
    return float(apart.max(initial=0.0)) if np.isfinite(apart).all() else float("inf")
