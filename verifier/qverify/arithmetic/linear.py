"""What every integer linear op shares: centred operands and the requantization of its accumulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.arithmetic.requantize import requantize

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Requantization:
    """The requantization of an accumulator. rq: as in NUMERICS.md section 1; wide: int64 accumulators; axis: of the
    channels. dtype float32: acc is scaled and not requantized. bias: float32 [C], added to what is scaled."""

    rq: Array
    zero_point: int
    low: int
    high: int
    dtype: str
    rounding: str
    wide: bool
    axis: int = 1
    bias: Array | None = None

    def part(self, channels: slice, axis: int = 0) -> Requantization:
        """Returns the same for some of the channels, with these on this axis."""
        rq = self.rq if self.rq.shape[-1] == 1 else self.rq[..., channels]
        return replace(self, rq=rq, axis=axis, bias=None if self.bias is None else self.bias[channels])

    def of(self, acc: Array) -> Array:
        """Returns the output of an accumulator. acc: exact integers in float32, float64 or int64; 8-bit sums beyond
        int32 wrap. May overwrite acc."""
        if self.dtype == "float32":
            return self._scaled(acc)
        if acc.dtype == np.float32 and self.rq.dtype == np.float32:
            self._multiply(acc)
            return acc.astype(self.dtype)
        whole = acc.astype(np.int64) if self.wide else wrap_int32(acc)
        return requantize(
            whole, self.rq, self.zero_point, self.low, self.high, self.dtype, self.rounding, self.wide, self.axis
        )

    def into(self, acc: Array, y: Array) -> None:
        """Writes the output of an accumulator to y, of its shape. May overwrite acc."""
        if acc.dtype == np.float32 and self.rq.dtype == np.float32 and self.dtype != "float32":
            self._multiply(acc)
            np.copyto(y, acc, casting="unsafe")
        else:
            y[...] = self.of(acc)

    def _multiply(self, acc: Array) -> None:
        """Replaces float32 sums by the whole numbers of the output, in place."""
        along = [1] * acc.ndim
        if self.rq.shape[-1] > 1:
            along[self.axis] = -1
        acc *= self.rq.reshape(along)
        np.rint(acc, out=acc)
        np.clip(acc, self.low - self.zero_point, self.high - self.zero_point, out=acc)
        if self.zero_point:
            acc += self.zero_point

    def _scaled(self, acc: Array) -> Array:
        """Returns fl32(f64(acc) * S + f64(b)). Sums in float32 are below 2^24 and do not wrap."""
        along = [1] * acc.ndim
        along[self.axis] = -1
        whole = acc if self.wide or acc.dtype == np.float32 else wrap_int32(acc)
        value = whole.astype(np.float64) * (self.rq.reshape(along) if self.rq.size > 1 else self.rq[0])
        if self.bias is not None:
            value += self.bias.astype(np.float64).reshape(along)
        with np.errstate(over="ignore"):
            return value.astype(np.float32)


def is_wide(*dtypes: str) -> bool:
    """Returns whether sums are accumulated in int64: those of 16-bit operands are."""
    return any(d in ("int16", "uint16") for d in dtypes)


def along_axis(values: tuple[int, ...] | tuple[float, ...], rank: int, axis: int) -> Array:
    """Returns zero points or scales shaped to broadcast along `axis`."""
    array = np.array(values)
    if len(values) == 1:
        return array.reshape([1] * rank)
    shape = [1] * rank
    shape[axis] = -1
    return array.reshape(shape)
