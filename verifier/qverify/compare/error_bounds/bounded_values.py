"""Bounded values: the values that a tensor may have on any correct side. A float tensor is a Real (float64 with an
error bound), an integer tensor a Whole (an interval)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.tensors.real_values import to_float64
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]

ROUNDOFF = 2.0**-24 * (1 + 2.0**-18)  # of binary32; the second term covers this evaluation's own float64
TINY = 2.0**-126  # largest error of flushing a subnormal to zero
OVERFLOW = 2.0**127  # a float32 sum whose magnitudes add up to less stays finite in any order of summation
BEYOND = 2.0**128 - 2.0**103  # a real value of this magnitude or more rounds to an infinity


class NoBound(Exception):
    """Raised for an op, or a form of it, that has no float64 evaluation. The text names it."""


@dataclass(frozen=True, slots=True)
class Real:
    """A float tensor.

    Attributes:
        value: the exact value, apart from float64 rounding.
        error: bound, of the same shape. The float32 value of every correct side lies within value +- error.
        ours: the smaller error bound of qverify's own arithmetic, or None if it is that of every side.
        lost: mask of the elements at which the reference's float32 intermediates may overflow or underflow, so that its
            value means nothing, or None if there are none. qverify's own arithmetic is within the error there, too.
        mixed: whether `ours` is the smaller bound only at the lost elements, and may be equal to `error` elsewhere.
    """

    value: Reals
    error: Reals
    ours: Reals | None = None
    lost: Array | None = None
    mixed: bool = field(default=False, kw_only=True)

    def rounded(self, times: float = 1.0) -> Real:
        """Returns the tensor with the error of `times` additional roundings to float32."""
        error = self.error + times * ROUNDOFF * (np.abs(self.value) + self.error) + TINY
        return Real(self.value, error, None, self.lost)

    def mark_lost(self, *where: Array) -> Real:
        """Returns the tensor, with the elements lost at which any of these masks is True. They broadcast to its
        shape."""
        lost = np.logical_or.reduce([np.broadcast_to(w, self.value.shape) for w in where])
        lost = lost if self.lost is None else lost | self.lost
        return replace(self, lost=lost if lost.any() else None)

    def mark_lost_if_large(self, *sizes: Reals) -> Real:
        """Returns the tensor, with the elements lost at which one of these magnitudes of float32 intermediates may
        overflow."""
        return self.mark_lost(*(np.abs(size) >= OVERFLOW for size in sizes))

    def shaped(self, shape: tuple[int, ...]) -> Real:
        """Returns the tensor in this shape."""
        ours, lost = (None if v is None else v.reshape(shape) for v in (self.ours, self.lost))
        return Real(self.value.reshape(shape), self.error.reshape(shape), ours, lost)

    def as_float32(self) -> Real:
        """Returns the tensor as float32 stores it: infinite at elements that every side rounds to infinity, and lost at
        those that only some sides may."""
        size = np.abs(self.value)
        if not np.isfinite(size).any() or not (size + self.error >= BEYOND).any():
            return self
        beyond = np.isfinite(size) & (size - self.error >= BEYOND)
        value = np.where(beyond, np.copysign(np.inf, self.value), self.value)
        near = np.isfinite(value) & np.isfinite(self.error) & (size + self.error >= BEYOND)
        return replace(self, value=value, error=np.where(beyond, 0.0, self.error)).mark_lost(near)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer tensor.

    Attributes:
        low, high: ends of the interval that contains the integer of every correct side.
        error: error of the value before it was rounded, in LSB, or None if there was no rounding.
        ours: the narrower interval of qverify's own arithmetic, or None if it is that of every side.
        lost: as for Real.
    """

    low: Wholes
    high: Wholes
    error: Reals | None = None
    ours: tuple[Wholes, Wholes] | None = None
    lost: Array | None = None


BoundedValue = Real | Whole


def bound_exactly(values: Array) -> BoundedValue:
    """Returns the bounded value of a recorded or constant array, which has no error."""
    if values.dtype.kind == "f":
        real = to_float64(values)
        return Real(real, np.zeros_like(real))
    whole = values.astype(np.int64)
    return Whole(whole, whole)


def exact(values: Reals) -> Real:
    """Returns a float tensor without error."""
    return Real(values, np.zeros_like(values))


def require_real(value: BoundedValue | None) -> Real:
    """Returns the value if it is a float tensor, else raises NoBound."""
    if not isinstance(value, Real):
        raise NoBound("integers where floats are wanted")
    return value


def require_certain(value: BoundedValue | None) -> Wholes:
    """Returns the integers of a tensor that is the same on all sides. Raises NoBound for any other."""
    if not isinstance(value, Whole) or (value.low is not value.high and (value.low != value.high).any()):
        raise NoBound("integers that depend on floats")
    return value.low


def gamma(roundings: float) -> float:
    """Returns n*u / (1 - n*u), n being the number of roundings and u the roundoff: the error, relative to the sum of
    the terms' magnitudes, of a sum of n terms in any order, with or without fused multiply-add (Higham 2002, 3.1)."""
    part = roundings * ROUNDOFF
    return part / (1.0 - part) if part < 1.0 else np.inf


def float_word(word: int) -> float:
    """Returns the float32 whose bits are this int32."""
    return float(np.array(word, np.int32).view(np.float32))


def round_interval(value: Reals, error: Reals, zero: Array | int, limits: tuple[int, int]) -> Whole:
    """Returns the interval of the integers to which a value within value +- error (LSB before the zero point) may be
    rounded, with any rule for ties, clipped to the limits."""
    lost = np.isnan(error)
    reach = np.where(lost, np.inf, error) if lost.any() else error
    low, high = (_clip_integers(v, zero, limits) for v in (np.ceil(value - reach - 0.5), np.floor(value + reach + 0.5)))
    return Whole(low, np.maximum(low, high), error)


def _clip_integers(steps: Reals, zero: Array | int, limits: tuple[int, int]) -> Wholes:
    """Returns whole numbers before the zero point as integers within the limits; NaN becomes the lowest."""
    clipped = np.clip(steps + zero, *limits)
    lost = np.isnan(clipped)
    return (np.where(lost, limits[0], clipped) if lost.any() else clipped).astype(np.int64)


def broadcast_parameters(spec: TensorSpec) -> tuple[Reals, Wholes]:
    """Returns scale and zero point of a tensor, shaped to broadcast against it."""
    along = [1] * len(spec.shape)
    if len(spec.scale) > 1:
        along[spec.channel_axis] = -1
    return np.array(spec.scale, np.float64).reshape(along), np.array(spec.zero_point, np.int64).reshape(along)


def dequantize(value: Whole, spec: TensorSpec) -> Real:
    """Returns fl32((q - z) * s). Every side rounds in the same way here, so integers that are the same on all sides
    become values without error."""
    scale, zero = broadcast_parameters(spec)
    if value.low is value.high or (value.low == value.high).all():
        centred = (value.low - zero).astype(np.float32)
        return exact((centred * scale.astype(np.float32)).astype(np.float64))
    low, high = (value.low - zero) * scale, (value.high - zero) * scale
    return Real((low + high) / 2, np.abs(high - low) / 2).rounded(2)


def quantize(value: Real, spec: TensorSpec) -> Whole:
    """Returns clip(round(x / s) + z), with one rounding of the division."""
    scale, zero = broadcast_parameters(spec)
    limits = np.iinfo(spec.dtype)
    stepped = Real(value.value / scale, value.error / scale).rounded()
    return round_interval(stepped.value, stepped.error, zero, (int(limits.min), int(limits.max)))


def requantize_operand(value: BoundedValue, spec: TensorSpec, y: TensorSpec) -> BoundedValue:
    """Returns an operand of concat or where as it is stored: unchanged if its quantization is that of y, else
    requantized to y."""
    if (
        isinstance(value, Real)
        or not y.scale
        or (spec.scale, spec.zero_point, spec.dtype) == (y.scale, y.zero_point, y.dtype)
    ):
        return value
    return quantize(dequantize(value, spec), y)


def read_inputs(node: Node, graph: Graph, values: dict[str, BoundedValue]) -> list[BoundedValue | None]:
    """Returns the node's inputs from `values` or the graph's constants, with None for an absent input."""
    return [
        None
        if n is None
        else values[n]
        if n in values
        else bound_exactly(graph.constants[n])
        if n in graph.constants
        else None
        for n in node.inputs
    ]
