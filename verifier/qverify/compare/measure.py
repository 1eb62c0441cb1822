"""All metrics of one tensor pair in one pass over its blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.decimals import MAX_DIGITS, unmatched
from qverify.compare.paired_values import blocks
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
HISTOGRAM_EDGE = 16


@dataclass(slots=True)
class Measured:
    """max_lsb: None for floats. matching_digits: None when equal. unmatched: elements that fail at the asked digits.
    one_sided / both: elements not finite on one side / on both at the same place."""

    elements: int = 0
    mismatched: int = 0
    unmatched: int = 0
    max_abs: float = 0.0
    max_lsb: float | None = None
    matching_digits: int | None = None
    cosine: float = 1.0
    rmse: float = 0.0
    sqnr_db: float = float("inf")
    one_sided: int = 0
    both_not_finite: int = 0
    lsb_histogram: dict[str, int] = field(default_factory=dict)


def measure(spec: TensorSpec, a: Array, b: Array, digits: int, rule: str) -> Measured:
    """a: the side that counts as signal for SQNR. Shapes and dtypes are equal (checked by the caller)."""
    found = Measured()
    sums = np.zeros(4)  # aa, bb, ab, (a-b)^2
    passing = MAX_DIGITS
    steps: dict[int, int] = {}
    for x, y, lsb, count in blocks(spec, a, b):
        found.elements += int(count.sum())
        odd_x, odd_y = ~np.isfinite(x), ~np.isfinite(y)
        if odd_x.any() or odd_y.any():
            same = odd_x & odd_y & ((x == y) | (np.isnan(x) & np.isnan(y)))
            found.both_not_finite += int(count[same].sum())
            found.one_sided += int(count[(odd_x | odd_y) & ~same].sum())
            found.mismatched += int(count[(odd_x | odd_y) & ~same].sum())
            keep = ~(odd_x | odd_y)
            x, y, count = x[keep], y[keep], count[keep]
        difference = x - y
        differs = difference != 0
        sums += (
            float(count @ (x * x)),
            float(count @ (y * y)),
            float(count @ (x * y)),
            float(count @ (difference * difference)),
        )
        if lsb.size:
            found.max_lsb = max(found.max_lsb or 0.0, float(np.abs(lsb).max(initial=0.0)))
        if not differs.any():
            continue
        found.mismatched += int(count[differs].sum())
        found.max_abs = max(found.max_abs, float(np.abs(difference).max()))
        x, y, count = x[differs], y[differs], count[differs]
        found.unmatched += int(count[unmatched(x, y, digits, rule)].sum())
        while passing >= 0 and unmatched(x, y, passing, rule).any():
            passing -= 1
        if lsb.size:
            _count_steps(steps, lsb[differs], count)
    _finish(found, sums, passing, steps)
    return found


def _count_steps(steps: dict[int, int], lsb: Array, count: Array) -> None:
    clipped = np.clip(lsb, -HISTOGRAM_EDGE, HISTOGRAM_EDGE).astype(np.int64)
    for step in np.unique(clipped):
        steps[int(step)] = steps.get(int(step), 0) + int(count[clipped == step].sum())


def _finish(found: Measured, sums: Array, passing: int, steps: dict[int, int]) -> None:
    edge = HISTOGRAM_EDGE
    found.lsb_histogram = {
        f"<=-{edge}" if k == -edge else f">={edge}" if k == edge else f"{k:+d}": n for k, n in sorted(steps.items())
    }
    if found.one_sided:
        found.max_abs = float("inf")
        found.unmatched += found.one_sided
    if found.mismatched:
        found.matching_digits = -1 if found.one_sided else passing
    size = max(found.elements - found.one_sided - found.both_not_finite, 1)
    found.rmse = float(np.sqrt(sums[3] / size))
    if sums[3] > 0:
        norm = float(np.sqrt(sums[0]) * np.sqrt(sums[1]))
        found.cosine = float(sums[2] / norm) if norm > 0 else 0.0
        found.sqnr_db = float(10 * np.log10(sums[0] / sums[3])) if sums[0] > 0 else float("-inf")
    if found.one_sided:
        found.cosine, found.rmse, found.sqnr_db = float("nan"), float("nan"), float("nan")
