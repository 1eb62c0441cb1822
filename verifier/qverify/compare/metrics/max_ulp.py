"""Largest distance of a and b in units in the last place: how many numbers of their type, float16, float32 or float64, lie
between them, plus one; None for other types. A value that is not finite on one side counts as the farthest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.metrics import Context
from qverify.compare.paired_values import Block

NAME = "max_ulp"
INTEGERS: dict[str, type[np.signedinteger[Any]]] = {"float16": np.int16, "float32": np.int32, "float64": np.int64}


class Measure:
    def __init__(self, context: Context):
        self.dtype = context.dtype if context.dtype in INTEGERS else ""
        self.largest: int | None = 0 if self.dtype else None

    def add(self, block: Block) -> None:
        if self.largest is None:
            return
        unlike = block.distance != 0
        if not unlike.any():
            return
        a, b, wild = block.a[unlike], block.b[unlike], np.isinf(block.distance[unlike])
        finite = np.isfinite(a) & np.isfinite(b)
        limits = np.iinfo(INTEGERS[self.dtype])
        if (wild & ~finite).any():
            self.largest = int(limits.max)
        if finite.any():
            places = [self._places(side[finite]) for side in (a, b)]
            low, high = np.minimum(*places), np.maximum(*places)
            far = int((high.astype(np.uint64) - low.astype(np.uint64)).max())  # of two's complement: no overflow
            self.largest = min(max(self.largest, far), int(limits.max))

    def _places(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Returns the place of each value in the rising order of all numbers of its type; 0 and -0 have the same."""
        bits = values.astype(self.dtype).view(INTEGERS[self.dtype]).astype(np.int64)
        lowest = int(np.iinfo(INTEGERS[self.dtype]).min)
        return np.where(bits < 0, lowest - bits, bits)

    def result(self) -> int | None:
        return self.largest
