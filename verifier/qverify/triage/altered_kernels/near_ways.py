"""A cheap check of a way to compute a sum, beside the rounding of a runtime that rounds in its own way."""

from __future__ import annotations

import numpy as np

from qverify.triage.altered_kernels.summed_elements import Way, sample
from qverify.triage.case import Case

REACH = 1  # LSB by which the rounding may differ


def may_nearly_fit(case: Case, way: Way) -> bool:
    """Returns whether the way gives at least half of some differing elements, up to a rounding; True if the unit has no
    sum of which some elements can be computed alone."""
    few = sample(case)
    if few is None:
        return True
    near = np.abs(way(few).astype(np.int64) - few.recorded.astype(np.int64)) <= REACH
    return bool(2 * np.count_nonzero(near) >= len(near))
