"""How loud a final output is in steps of its own scale: whether a cosine can judge it, or it is near enough, or says nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qverify.report.triage_document import OutputRow, Quiet, TensorLoss
from qverify.tensors.spec import TensorSpec

LEAST_USED = 1 / 64  # share of the quantized range, four levels of 8 bit, that a value must reach to be near enough
MURMUR = 1 / 8  # share of that range: what a quantized output may say while the float is quiet, and nobody is accused
FLOAT_BITS = 22  # of 24: float32 values this near are equal
Judged = Literal["gate", "near", "quiet", "too_small"]


@dataclass(frozen=True, slots=True)
class OutputStep:
    """Real values. size: of one LSB, the smallest of several channels. extent: of the whole quantized range."""

    size: float
    extent: float

    @classmethod
    def of(cls, spec: TensorSpec) -> OutputStep:
        """spec: of a quantized tensor."""
        limits = np.iinfo(spec.numpy_dtype)  # type: ignore[type-var]
        size = float(min(spec.scale))
        return cls(size, size * float(int(limits.max) - int(limits.min)))

    def judged(self, largest: float, off: float) -> Judged:
        """What a cosine below its limit tells. largest: of |float|; off: the largest |float - quantized|; both over all frames.

        quiet: the float never is a whole step, and the quantized no further than a step from it: nothing can be told.
        near: within half a step of a float that reaches LEAST_USED of the range: quantization cannot do better.
        too_small: off by a step at most, or the float is quiet and the quantized murmurs: nobody is accused, nothing shown."""
        if not (np.isfinite(largest) and np.isfinite(off)):
            return "gate"
        rounding = largest * 2.0**-FLOAT_BITS
        if largest < self.size:
            return "quiet" if off <= self.size + rounding else "too_small" if off <= self.extent * MURMUR else "gate"
        if off <= self.size / 2 + rounding and largest >= self.extent * LEAST_USED:
            return "near"
        return "too_small" if off <= self.size else "gate"


def loudness_text(largest: float, step: float) -> str:
    """How loud, for people."""
    if largest == 0:
        return "it is zero everywhere"
    if largest < step / 2:
        return f"its largest value is {2 * largest / step:.2g} of half a step"
    return f"its largest value is {largest / step:.2g} of a step"


def quiet_outputs(outputs: Iterable[OutputRow], losses: Iterable[TensorLoss]) -> list[Quiet]:
    """The tensors that no frame made loud: final outputs of the rungs from float, then those inside, in running order."""
    found: dict[str, Quiet] = {}
    for row in outputs:
        if row.judged == "quiet" and row.largest is not None and row.step is not None:
            found.setdefault(
                row.name, Quiet(row.name, True, row.largest, row.step, loudness_text(row.largest, row.step))
            )
    for loss in losses:
        largest = max(abs(loss.float_low), abs(loss.float_high))
        if largest < loss.step / 2:
            found.setdefault(
                loss.tensor, Quiet(loss.tensor, False, largest, loss.step, loudness_text(largest, loss.step))
            )
    return list(found.values())
