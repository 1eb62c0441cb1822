"""The requantization of accumulators, and small functions, for all integer linear ops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.arithmetic.requantize import requantize

Array = npt.NDArray[Any]
SHORT_BUFFER = 1024  # elements
STEPS_BLOCK = 1 << 15  # elements whose int64 values, which several steps read and write, stay in a second-level cache
SUMS_ALONE = "none"  # in place of a rounding mode: sums are not requantized


@dataclass(frozen=True, slots=True)
class Requantization:
    """The requantization of an accumulator.

    Attributes:
        rq: multipliers, as in NUMERICS.md section 1.
        zero_point: zero point of the output.
        low, high: limits of the output.
        dtype: type of the output. For float32, accumulators are scaled and not requantized.
        rounding: rounding mode; SUMS_ALONE for the sums themselves, in an integer dtype.
        wide: whether accumulators are int64.
        axis: axis of the channels.
        bias: float32 [C], which is added to scaled accumulators, or None.
    """

    rq: Array
    zero_point: int
    low: int
    high: int
    dtype: str
    rounding: str
    wide: bool
    axis: int = 1
    bias: Array | None = None

    def select(self, channels: slice, axis: int = 0) -> Requantization:
        """Returns the requantization of some of the channels, with the channels on this axis."""
        count = max(self.rq.shape[-1], 0 if self.bias is None else len(self.bias))
        if axis == self.axis and (count == 1 or (channels.start == 0 and channels.stop >= count)):
            return self  # as for a small node, for which making another takes a tenth of the time
        rq = self.rq if self.rq.shape[-1] == 1 else self.rq[..., channels]
        return replace(self, rq=rq, axis=axis, bias=None if self.bias is None else self.bias[channels])

    @property
    def _has_scales(self) -> bool:
        """Whether rq is float32 [C], as in ref-exact."""
        return self.rq.dtype == np.float32 and self.rq.ndim == 1

    def apply(self, acc: Array) -> Array:
        """Returns the output for an accumulator. May overwrite acc. acc: exact integers in float32, float64 or int64.
        Sums of 8-bit operands beyond int32 wrap."""
        if self.rounding == SUMS_ALONE:
            return as_integers(acc, self.dtype)
        if self.dtype == "float32":
            return self._scale(acc)
        if acc.dtype == np.float32 and self._has_scales:
            self._multiply(acc)
            return acc.astype(self.dtype)
        short = self.wide or acc.dtype == np.float32  # whole numbers in float32 are below 2^24
        whole = acc.astype(np.int64) if short else wrap_int32(acc)
        return requantize(
            whole, self.rq, self.zero_point, self.low, self.high, self.dtype, self.rounding, self.wide, self.axis
        )

    def apply_into(self, acc: Array, y: Array) -> None:
        """Writes the output for an accumulator to y, which has the same shape. May overwrite acc."""
        if acc.dtype == np.float32 and self._has_scales and self.dtype != "float32":
            self._multiply(acc)
            np.copyto(y, acc, casting="unsafe")
        elif self.rq.ndim == 2 and self.axis == 0 and acc.ndim == 2 and acc.size > 2 * STEPS_BLOCK:
            rows = max(1, STEPS_BLOCK // acc.shape[1])
            for start in range(0, len(acc), rows):
                some = slice(start, start + rows)
                y[some] = self.select(some).apply(acc[some])
        else:
            y[...] = self.apply(acc)

    def _multiply(self, acc: Array) -> None:
        """Replaces float32 sums by the integers of the output, in place."""
        along = [1] * acc.ndim
        if self.rq.shape[-1] > 1:
            along[self.axis] = -1
        apply_to_rows(np.multiply, acc, self.rq.reshape(along))
        np.rint(acc, out=acc)
        np.clip(acc, self.low - self.zero_point, self.high - self.zero_point, out=acc)
        if self.zero_point:
            acc += self.zero_point

    def _scale(self, acc: Array) -> Array:
        """Returns fl32(f64(acc) * S + f64(b)). Sums in float32 are below 2^24 and do not wrap."""
        along = [1] * acc.ndim
        along[self.axis] = -1
        whole = acc if self.wide or acc.dtype == np.float32 else wrap_int32(acc)
        value = whole.astype(np.float64) * (self.rq.reshape(along) if self.rq.size > 1 else self.rq[0])
        if self.bias is not None:
            value += self.bias.astype(np.float64).reshape(along)
        with np.errstate(over="ignore"):
            return value.astype(np.float32)


def as_integers(acc: Array, dtype: str) -> Array:
    """Returns exact sums as integers of this type; those beyond int32 wrap in it."""
    short = acc.dtype in (np.float32, np.int32)  # whole numbers in float32 are below 2^24
    return (acc if short else acc.astype(np.int64, copy=False)).astype(dtype, copy=False)


def apply_to_rows(function: np.ufunc, acc: Array, values: Array) -> None:
    """Replaces acc by function(acc, values), where values has one value for each row. With numpy's usual buffer, which
    is longer than most rows, numpy would first write each value as often as the row is long."""
    if acc.shape[-1] < SHORT_BUFFER:
        function(acc, values, out=acc)
        return
    usual = np.setbufsize(SHORT_BUFFER)
    try:
        function(acc, values, out=acc)
    finally:
        np.setbufsize(usual)


def is_wide(*dtypes: str) -> bool:
    """Returns whether sums of operands of these types are accumulated in int64, as those of 16-bit operands are."""
    return any(d in ("int16", "uint16") for d in dtypes)


def along_axis(values: tuple[int, ...] | tuple[float, ...], rank: int, axis: int) -> Array:
    """Returns zero points or scales, shaped to broadcast along `axis` of an array of this rank."""
    array = np.array(values)
    if len(values) == 1:
        return array.reshape([1] * rank)
    shape = [1] * rank
    shape[axis] = -1
    return array.reshape(shape)
