"""The loudness of a final output in steps of its own scale: a cosine can judge it, it is near enough, or it is too quiet
to judge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qverify.report.triage_document import OutputRow, Quiet, TensorLoss
from qverify.tensors.spec import TensorSpec

LEAST_USED = 1 / 64  # share of the quantized range (four levels of 8 bit) that the float must reach to be judged "near"
MURMUR = 1 / 8  # share of that range that a quantized output may reach beside a quiet float output without being blamed
FLOAT_BITS = 22  # significant bits up to which float32 values count as equal
Judged = Literal["gate", "near", "quiet", "too_small"]


@dataclass(frozen=True, slots=True)
class OutputStep:
    """The step of a quantized output in real values. size: one LSB (the smallest of several channels). extent: the
    whole quantized range."""

    size: float
    extent: float

    @classmethod
    def of(cls, spec: TensorSpec) -> OutputStep:
        """Returns the step of a quantized tensor's spec."""
        limits = np.iinfo(spec.numpy_dtype)  # type: ignore[type-var]
        size = float(min(spec.scale))
        return cls(size, size * float(int(limits.max) - int(limits.min)))

    def judged(self, largest: float, off: float) -> Judged:
        """Returns what a cosine below its limit means.

        quiet: the float never reaches a whole step, and the quantized output is within a step of it, so nothing can be
        judged. near: the output is within half a step of a float that reaches LEAST_USED of the range; quantization
        cannot do better. too_small: the output is off by at most one step, or the float is quiet and the output is off
        by at most MURMUR of its range; it is not blamed, and nothing is proved. gate: the cosine judges.

        Args:
            largest: the largest |float| over all frames.
            off: the largest |float - quantized| over all frames.
        """
        if not (np.isfinite(largest) and np.isfinite(off)):
            return "gate"
        rounding = largest * 2.0**-FLOAT_BITS
        if largest < self.size:
            return "quiet" if off <= self.size + rounding else "too_small" if off <= self.extent * MURMUR else "gate"
        if off <= self.size / 2 + rounding and largest >= self.extent * LEAST_USED:
            return "near"
        return "too_small" if off <= self.size else "gate"


def loudness_text(largest: float, step: float) -> str:
    """Returns in words how loud a tensor is compared with its step."""
    if largest == 0:
        return "it is zero everywhere"
    if largest < step / 2:
        return f"its largest value is {2 * largest / step:.2g} of half a step"
    return f"its largest value is {largest / step:.2g} of a step"


def quiet_outputs(outputs: Iterable[OutputRow], losses: Iterable[TensorLoss]) -> list[Quiet]:
    """Returns the tensors that are quiet in every frame: final outputs of the gates from float, then inner tensors in
    running order."""
    quiet: dict[str, Quiet] = {}
    for row in outputs:
        if row.judged == "quiet" and row.largest is not None and row.step is not None:
            quiet.setdefault(
                row.name, Quiet(row.name, True, row.largest, row.step, loudness_text(row.largest, row.step))
            )
    for loss in losses:
        largest = max(abs(loss.float_low), abs(loss.float_high))
        if largest < loss.step / 2:
            quiet.setdefault(
                loss.tensor, Quiet(loss.tensor, False, largest, loss.step, loudness_text(largest, loss.step))
            )
    return list(quiet.values())
