"""Channels of a quantized tensor that are clipped: many of their elements lie at the end of the quantized range where the
float model goes beyond it. What the float network itself saturates right after is no loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.plural import count
from qverify.report.facts import Finding
from qverify.tensors.spec import TensorSpec
from qverify.triage.kept_range import ALL, Range

Array = npt.NDArray[Any]
SHARE = 0.1  # of the elements of a channel, from which it counts as clipped
FEWEST = 16  # clipped elements of a channel that are no accident
DEPTH = 1 / 16  # of the quantized range, by which the float model must go beyond its end
CLIPPED_WEIGHT = 0.25  # share by which the largest float weight of a channel exceeds the largest quantized one
MAX_SHOWN = 3  # tensors that are findings, and channels that are named


@dataclass(frozen=True, slots=True)
class ClippedChannel:
    """A clipped channel. axis: -1 if the whole tensor is meant. share: of its elements that are clipped. limit: the end
    of the quantized range. reached: the float value that is farthest beyond."""

    axis: int
    channel: int
    share: float
    limit: float
    reached: float

    def describe(self) -> str:
        """Returns the fact in words, without the tensor's name."""
        where = "" if self.axis < 0 else f"channel {self.channel} of axis {self.axis}: "
        part = f", {self.limit / self.reached:.0%} of it" if self.limit * self.reached > 0 else ""
        return (
            f"{where}{self.share:.0%} of the elements are clipped at {self.limit:.4g}, the float model goes to "
            f"{self.reached:.4g}{part}"
        )


@dataclass(slots=True)
class _End:
    """Counts at one end of the range, of each channel of one axis. reached: farthest float value beyond."""

    clipped: Array
    reached: Array


@dataclass(slots=True)
class ClippingCount:
    """Counts the clipped elements of one tensor over all frames, for the whole tensor and for each channel of every axis
    that may be that of the channels: the second, the one of the scales, and the last where there are three. kept: the
    lowest and highest float value that the float network keeps, as find_kept_range() returns it."""

    spec: TensorSpec
    kept: Range = ALL
    _ends: dict[tuple[int, bool], _End] = field(default_factory=dict)
    _elements: dict[int, int] = field(default_factory=dict)

    def add(self, value: Array, quantized: Array) -> None:
        """Adds one frame. value: of the float model. quantized: stored integers; of another shape, it is left out."""
        if value.shape != quantized.shape or not value.size or quantized.dtype.kind not in "iu":
            return
        value = np.clip(value, *self.kept)
        limits = np.iinfo(quantized.dtype)
        for upper, stored in ((False, limits.min), (True, limits.max)):
            end = self._ends_of_range(int(stored), value.ndim)
            if not upper and not end.any():
                continue  # the range begins at 0: a Relu that is part of the tensor
            step = self._by_channel(np.array(self.spec.scale, np.float64), value.ndim)
            beyond = (value > end + step) if upper else (value < end - step)
            beyond = beyond & (quantized == stored)
            if not beyond.any():
                continue
            for axis in self._axes(value):
                self._count(axis, upper, beyond, np.where(beyond, value, end))
        for axis in self._axes(value):
            channels = value.shape[axis] if axis >= 0 else 1
            self._elements[axis] = self._elements.get(axis, 0) + value.size // max(channels, 1)

    def _axes(self, value: Array) -> list[int]:
        axes = {1, self.spec.channel_axis if len(self.spec.scale) > 1 else 1}
        axes |= {2} if value.ndim == 3 else set()  # of rank 3, the last axis may hold the channels
        return [-1, *sorted(axis for axis in axes if 0 <= axis < value.ndim and value.shape[axis] > 1)]

    def _by_channel(self, numbers: Array, dims: int) -> Array:
        """Returns numbers of the scales' channels in a shape that broadcasts with the tensor."""
        shape = [1] * dims
        if numbers.size > 1:
            shape[self.spec.channel_axis] = numbers.size
        return numbers.reshape(shape if numbers.size > 1 or dims else ())

    def _ends_of_range(self, stored: int, dims: int) -> Array:
        scale, zero = np.array(self.spec.scale, np.float64), np.array(self.spec.zero_point, np.float64)
        return self._by_channel((stored - zero) * scale, dims)

    def _count(self, axis: int, upper: bool, beyond: Array, values: Array) -> None:
        others = tuple(a for a in range(beyond.ndim) if a != axis)
        clipped = np.atleast_1d(beyond.sum(axis=others if axis >= 0 else None))
        reached = np.atleast_1d((values.max if upper else values.min)(axis=others if axis >= 0 else None))
        known = self._ends.setdefault((axis, upper), _End(np.zeros_like(clipped), reached))
        if known.clipped.shape == clipped.shape:
            known.clipped = known.clipped + clipped
            known.reached = (np.maximum if upper else np.minimum)(known.reached, reached)

    def worst(self) -> list[ClippedChannel]:
        """Returns the clipped channels, the worst first; of one axis, the one that separates them best. [] if the tensor
        is not clipped; one row of axis -1 if no axis tells channels apart."""
        by_axis = {axis: rows for axis in self._elements if (rows := self._clipped_of(axis))}
        if not by_axis:
            return []
        axis = max(by_axis, key=lambda a: (by_axis[a][0].share, -len(by_axis[a]), a < 0))
        return by_axis[axis]

    def _clipped_of(self, axis: int) -> list[ClippedChannel]:
        rows = []
        limits = np.iinfo(self.spec.numpy_dtype)  # type: ignore[type-var]
        scale, zero = np.array(self.spec.scale, np.float64), np.array(self.spec.zero_point, np.float64)
        low, high = (limits.min - zero) * scale, (limits.max - zero) * scale
        for upper, ends in ((False, low), (True, high)):
            end = self._ends.get((axis, upper))
            for channel, clipped in enumerate(end.clipped if end is not None else ()):
                assert end is not None
                of_channel = channel if axis == self.spec.channel_axis and scale.size > 1 else 0
                limit = float(
                    ends.flat[of_channel] if scale.size == 1 or axis == self.spec.channel_axis else ends.max()
                )
                extent = float((high - low).flat[of_channel])
                share, reached = int(clipped) / self._elements[axis], float(end.reached[channel])
                if share >= SHARE and clipped >= FEWEST and abs(reached - limit) >= DEPTH * extent:
                    rows.append(ClippedChannel(axis, channel, share, limit, reached))
        return sorted(rows, key=lambda row: (-row.share, row.channel))


def describe_clipped_weights(value: Array, quantized: Array, axis: int) -> str:
    """Returns which channels of quantized weights (real values) end far below the float ones, "" if none does. axis: of
    the channels."""
    if value.shape != quantized.shape or not value.size:
        return ""
    others = tuple(a for a in range(value.ndim) if a != axis % value.ndim)
    wanted, got = (np.abs(v.astype(np.float64)).max(axis=others) for v in (value, quantized))
    at = np.flatnonzero((wanted > got * (1 + CLIPPED_WEIGHT)) & (got > 0))
    if not at.size:
        return ""
    worst = int(max(at, key=lambda c: wanted[c] / got[c]))
    more = f" (and {count(at.size - 1, 'more channel')})" if at.size > 1 else ""
    return f"channel {worst} ends at {got[worst]:.4g}, its float weights at {wanted[worst]:.4g}{more}: clipped by the exporter"


def find_clipping(tensors: Iterable[tuple[str, list[ClippedChannel]]], random: bool = False) -> list[Finding]:
    """Returns a finding on each of the first MAX_SHOWN clipped tensors. tensors: names, and their clipped channels. random:
    whether the inputs are random."""
    clipped = [(name, rows) for name, rows in tensors if rows]
    findings = [Finding("clipping", name, describe_clipping(name, rows, random)) for name, rows in clipped[:MAX_SHOWN]]
    if findings and len(clipped) > MAX_SHOWN:
        findings[-1].text += f" (and so {count(len(clipped) - MAX_SHOWN, 'more tensor', 'is', 'are')})"
    return findings


def describe_clipping(name: str, rows: list[ClippedChannel], random: bool = False) -> str:
    """Returns one line on a tensor's clipped channels, the worst first. random: whether the inputs are random."""
    shown = "; ".join(row.describe() for row in rows[:MAX_SHOWN])
    more = f"; and {count(len(rows) - MAX_SHOWN, 'more channel')}" if len(rows) > MAX_SHOWN else ""
    return f"{name}: {'with random inputs, ' if random else ''}{shown}{more}"
