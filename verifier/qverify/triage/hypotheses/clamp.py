"""The activation's clamp is missing, there is an extra one, or it has other limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qverify import ops
from qverify.triage.case import Array, Case, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "clamp"


def variants(case: Case) -> Iterator[FaultVariant]:
    if not case.spec.quantized or len(case.spec.scale) > 1:
        return
    words, (lowest, highest) = ops.words(case.last), limits(case.spec)
    low, high = words.get("act_min", lowest), words.get("act_max", highest)
    zero = case.spec.zero_point[0]
    six = zero + int(np.rint(6 / case.spec.scale[0]))
    clamps = {
        "left out": (lowest, highest),
        "left out at the lower end": (lowest, high),
        "left out at the upper end": (low, highest),
        "an extra Relu": (max(low, zero), high),
        "an extra Relu6": (max(low, zero), min(high, six)),
        "Relu instead": (zero, highest),
        "Relu6 instead": (zero, min(highest, six)),
        "to the symmetric range": (max(low, lowest + 1), high),
        "to the type of the other sign": (max(low, 0), min(high, highest if lowest else highest // 2)),
        "at zero instead of the zero point": (0, high),
        "below zero": (low, min(high, zero)),
        "one below the upper limit (it is taken as exclusive)": (low, high - 1),
        "one above the lower limit (it is taken as exclusive)": (low + 1, high),
        "one inside both limits (they are taken as exclusive)": (low + 1, high - 1),
    }
    for text, (a, b) in clamps.items():
        if (a, b) != (low, high) and lowest <= a <= b <= highest:
            yield FaultVariant(f"clamp {text} ({a}..{b} instead of {low}..{high})", _Clamped(a, b))
    yield from _measured(case, low, high)


def _measured(case: Case, low: int, high: int) -> Iterator[FaultVariant]:
    """Yields clamps at the smallest or the largest recorded element, or at both."""
    a, b = int(case.recorded.min()), int(case.recorded.max())
    ends = case.recorded.reshape(-1)[case.differing]
    if len(ends) > 2 and low < a < b < high and a in ends and b in ends:
        zero = case.spec.zero_point[0]
        about = f", {b - zero} to each side of the zero point" if b - zero == zero - a else ""
        yield FaultVariant(
            f"clamp {a}..{b} instead of {low}..{high}{about}", _Clamped(a, b), bits=8 * (1 if about else 2)
        )
    if (case.recorded == a).sum() > 1 and a != low:
        yield FaultVariant(f"clamp at {a} instead of {low} at the lower end", _Clamped(a, high), bits=8)
    if (case.recorded == b).sum() > 1 and b != high:
        yield FaultVariant(f"clamp at {b} instead of {high} at the upper end", _Clamped(low, b), bits=8)


class _Clamped:
    """Computes the node with other limits; the output of an op without words for limits is clipped."""

    def __init__(self, low: int, high: int):
        self.low, self.high = low, high

    def __call__(self, case: Case) -> Array:
        if "act_min" in ops.words(case.last):
            return case.recompute(case.change_words(act_min=self.low, act_max=self.high))
        return np.clip(case.healthy, self.low, self.high)
