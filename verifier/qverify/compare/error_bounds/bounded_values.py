"""Real and Whole: a tensor as every correct side may hold it, in float64 with a bound of the error, or as an integer interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]

ROUNDOFF = 2.0**-24 * (1 + 2.0**-18)  # of binary32; the second term covers this evaluation's own float64
TINY = 2.0**-126  # what flushing a subnormal to zero loses


class NoBound(Exception):
    """This op, or this form of it, has no float64 evaluation here; the text says which."""


@dataclass(frozen=True, slots=True)
class Real:
    """value: exact but for float64. error: every correct side's float32 lies within value +- error; both of one shape."""

    value: Reals
    error: Reals

    def rounded(self, times: float = 1.0) -> Real:
        """After `times` more roundings to float32."""
        return Real(self.value, self.error + times * ROUNDOFF * (np.abs(self.value) + self.error) + TINY)


@dataclass(frozen=True, slots=True)
class Whole:
    """low..high: where every correct side's integer lies. error: of the value before it was rounded, in its LSB; 0 for given ones.
    ours: low and high for our own arithmetic, where that is exact up to one rounding; None: as every side's."""

    low: Wholes
    high: Wholes
    error: Reals | None = None
    ours: tuple[Wholes, Wholes] | None = None


Held = Real | Whole


def held(values: Array) -> Held:
    """A recorded or constant array, which is exact."""
    if values.dtype.kind == "f":
        real = values.astype(np.float64)
        return Real(real, np.zeros_like(real))
    whole = values.astype(np.int64)
    return Whole(whole, whole)


def exact(real: Reals) -> Real:
    return Real(real, np.zeros_like(real))


def real(value: Held | None) -> Real:
    if not isinstance(value, Real):
        raise NoBound("integers where floats are wanted")
    return value


def certain(value: Held | None) -> Wholes:
    """The integers of a tensor that all sides hold alike."""
    if not isinstance(value, Whole) or (value.low is not value.high and (value.low != value.high).any()):
        raise NoBound("integers that depend on floats")
    return value.low


def gamma(roundings: float) -> float:
    """n*u / (1 - n*u): relative to sum |terms|, the error of a sum of n terms in any order, fused or not (Higham 2002, 3.1)."""
    part = roundings * ROUNDOFF
    return part / (1.0 - part) if part < 1.0 else np.inf


def float_word(word: int) -> float:
    return float(np.array(word, np.int32).view(np.float32))


def integers(value: Reals, error: Reals, zero: Array | int, limits: tuple[int, int]) -> Whole:
    """What rounding to nearest may give within value +- error (LSB before the zero point), any rule at the tie itself."""
    reach = np.where(np.isnan(error), np.inf, error)
    low, high = (
        np.clip(np.nan_to_num(v, nan=-np.inf) + zero, *limits)
        for v in (np.ceil(value - reach - 0.5), np.floor(value + reach + 0.5))
    )
    return Whole(low.astype(np.int64), np.maximum(low, high).astype(np.int64), error)


def parameters(spec: TensorSpec) -> tuple[Reals, Wholes]:
    """Scale and zero point, shaped to broadcast."""
    along = [1] * len(spec.shape)
    if len(spec.scale) > 1:
        along[spec.channel_axis] = -1
    return np.array(spec.scale, np.float64).reshape(along), np.array(spec.zero_point, np.int64).reshape(along)


def dequantize(value: Whole, spec: TensorSpec) -> Real:
    """fl32((q - z) * s): one rounding every side makes alike, so certain integers carry no error."""
    scale, zero = parameters(spec)
    if value.low is value.high or (value.low == value.high).all():
        centred = (value.low - zero).astype(np.float32)
        return exact((centred * scale.astype(np.float32)).astype(np.float64))
    low, high = (value.low - zero) * scale, (value.high - zero) * scale
    return Real((low + high) / 2, np.abs(high - low) / 2).rounded(2)


def quantize(value: Real, spec: TensorSpec) -> Whole:
    """clip(round(x / s) + z); the division rounds once."""
    scale, zero = parameters(spec)
    limits = np.iinfo(spec.dtype)
    stepped = Real(value.value / scale, value.error / scale).rounded()
    return integers(stepped.value, stepped.error, zero, (int(limits.min), int(limits.max)))


def requantized(value: Held, spec: TensorSpec, y: TensorSpec) -> Held:
    """As concat and where store a branch: a copy where the parameters are equal."""
    if (
        isinstance(value, Real)
        or not y.scale
        or (spec.scale, spec.zero_point, spec.dtype) == (y.scale, y.zero_point, y.dtype)
    ):
        return value
    return quantize(dequantize(value, spec), y)


def inputs_of(node: Node, graph: Graph, values: dict[str, Held]) -> list[Held | None]:
    return [
        None if n is None else values[n] if n in values else held(graph.constants[n]) if n in graph.constants else None
        for n in node.inputs
    ]
