"""The scale of a tensor's values, which a cosine does not see: the ratio of the norms of both sides."""

from __future__ import annotations

import math
from collections.abc import Iterable

from qverify.report.document import Pair, TensorRow
from qverify.report.facts import Finding
from qverify.report.side_names import within

MILD = 0.9  # cosine below which a gate accepts a lossy network, whose sparse outputs shrink
SHRUNK = 8.0  # factor that passes beside such a gate; a good network shrinks by 4.6
FAR = 2.0  # factor between the norms that is a finding whatever the gate
ANGLES = 3.0  # times the angle that a cosine allows, by which the norms may differ beside it
ROUNDING = 1e-6  # relative; float32 sums of equal values
BLIND = {"cosine"}  # metrics that do not change with the scale
MULTIPLE = 1.2  # factor between the norms of values in one direction, from which they are called a multiple
SAME_DIRECTION = 0.9  # cosine from which values of another norm are called a multiple


def largest_factor(cosine: float) -> float:
    """Returns the factor between the norms that passes beside a gate of this cosine: at most FAR, and SHRUNK for a gate
    below MILD."""
    if cosine < MILD:
        return SHRUNK
    return min(FAR, 1 + ROUNDING + ANGLES * math.sqrt(2 * max(0.0, 1 - cosine)))


def holds(ratio: float, factor: float) -> bool:
    """Returns whether the norms differ by at most this factor; NaN never does."""
    return 1 / factor <= ratio <= factor


def is_multiple(ratio: object, cosine: object) -> bool:
    """Returns whether values of this cosine are a multiple of those of the other side: their norms differ by more than
    MULTIPLE, and by more than ANGLES times the angle that lies between them."""
    if not isinstance(ratio, float) or not isinstance(cosine, float) or not math.isfinite(ratio) or not ratio:
        return False
    return cosine >= SAME_DIRECTION and not holds(ratio, MULTIPLE) and not holds(ratio, largest_factor(cosine))


def state_unseen_scales(pairs: Iterable[Pair]) -> None:
    """Names, in the verdict line of each pair that did not FAIL, a final output whose values are a multiple of those of the
    other side, which the gate lets pass."""
    for pair in pairs:
        rows = [r for r in pair.tensors if r.final and r.verdict != "FAILED" and _is_multiple_row(r)]
        if pair.verdict != "FAILED" and rows:
            pair.relaxed.append(f"{_describe_multiple(rows[0], pair)}, which the gate does not see")


def _is_multiple_row(row: TensorRow) -> bool:
    return is_multiple(row.metrics.get("norm_ratio"), row.metrics.get("cosine"))


def _describe_multiple(row: TensorRow, pair: Pair) -> str:
    ratio = row.metrics["norm_ratio"]
    assert isinstance(ratio, float)
    larger = f"{ratio:.3g}" if ratio > 1 else f"1/{1 / ratio:.3g}"
    return f"{row.name} is {larger} times as large {within(pair.b)} as {within(pair.a)}"


def describe(ratio: float) -> str:
    """Returns how large the values of the second side are, in words."""
    if ratio == 0:
        return "all values are zero, which those of the other side are not"
    if math.isnan(ratio):
        return "the norms have no ratio"
    if math.isinf(ratio):
        return "the values of the other side are all zero"
    times = f"{ratio:.3g} times as large" if ratio >= 1 else f"{1 / ratio:.3g} times too small"
    return f"the values are {times} (norms), which a cosine does not see"


def find_scales(pairs: Iterable[Pair]) -> list[Finding]:
    """Returns a finding on each final output whose values are a multiple of those of the other side, by more than FAR, or as
    is_multiple() says, once for each second side."""
    found: dict[tuple[str, str], Finding] = {}
    for pair in pairs:
        for row in pair.tensors:
            ratio, cosine = row.metrics.get("norm_ratio"), row.metrics.get("cosine")
            if not row.final or not isinstance(ratio, float) or not isinstance(cosine, float):
                continue
            far = ratio and math.isfinite(ratio) and not holds(ratio, FAR) and cosine >= SAME_DIRECTION
            if far or is_multiple(ratio, cosine):
                text = f"{_describe_multiple(row, pair)}: a scale (cosine {cosine:.4f})"
                found.setdefault((row.name, pair.b), Finding("scale", row.name, text, pair.frame))
    return list(found.values())
