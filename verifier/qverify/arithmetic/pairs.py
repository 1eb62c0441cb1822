"""Functions of two 8-bit tensors in a few float32 steps, block by block, while the elements are in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.workers import run_blocks, split_range

Array = npt.NDArray[Any]
BLOCK = 1 << 17  # elements of a block that stay in a second-level cache


@dataclass(frozen=True, slots=True)
class FloatSteps:
    """y = clip(rint(join(a * factors[0] + summands[0], b * factors[1] + summands[1]) * factor + summand)), each step
    rounded to float32. A factor of 1 and a summand of 0 are left out.

    Attributes:
        join: addition or multiplication.
        factors: of each operand.
        summands: of each operand.
        factor: of both together.
        summand: of both together.
        low, high: limits of y.
    """

    join: np.ufunc
    factors: tuple[Any, Any]
    summands: tuple[Any, Any]
    factor: Any
    summand: Any
    low: int
    high: int

    def apply(self, first: Array, second: Array, y: Array) -> None:
        """Writes the results to y, of rank 1 or more. The operands broadcast to its shape."""
        operands = []
        for k, x in enumerate((first, second)):  # a smaller operand is converted once, and not in each block
            operands.append(np.broadcast_to(x if x.size == y.size else self._scale(x, k), y.shape))
        axis = next((k for k, size in enumerate(y.shape) if size > 1), 0)

        def block(some: slice) -> None:
            index = (*[slice(None)] * axis, some)
            own = [self._scale(x[index], k) if x.dtype != np.float32 else None for k, x in enumerate(operands)]
            acc = next((x for x in own if x is not None), None)
            acc = np.empty(y[index].shape, np.float32) if acc is None else acc
            a, b = (x[index] if mine is None else mine for x, mine in zip(operands, own, strict=True))
            self.join(a, b, out=acc)
            self._finish(acc, y[index])

        each = y.size // max(1, y.shape[axis])
        run_blocks([partial(block, some) for some in split_range(y.shape[axis], BLOCK // max(1, each))])

    def _scale(self, x: Array, k: int) -> Array:
        value = x.astype(np.float32)
        if self.factors[k] != 1:
            value *= self.factors[k]
        if self.summands[k]:
            value += self.summands[k]
        return value

    def _finish(self, acc: Array, y: Array) -> None:
        if self.factor != 1:
            acc *= self.factor
        if self.summand:
            acc += self.summand
        np.rint(acc, out=acc)
        np.clip(acc, self.low, self.high, out=acc)
        np.copyto(y, acc, casting="unsafe")
