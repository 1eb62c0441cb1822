"""Two tensors as blocks of (a, b, count), which are computed once for all metrics. Two 8-bit tensors become one block,
from their 256 x 256 joint histogram."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

HISTOGRAM_BLOCK, FLOAT_BLOCK = 1 << 18, 1 << 16  # elements of a block whose temporaries stay in the processor's cache
Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(slots=True)
class Block:
    """Pairs of elements of two tensors, one per row.

    Attributes:
        a, b: real values, 0 in rows where both sides have the same NaN or Inf.
        distance: |a - b|, infinite where exactly one side is not finite, 0 where both have the same NaN or Inf.
        steps: b - a in LSB, or None for floats.
        count: how often each row occurs, or None if each occurs once.
        alike: mask of the rows in which both sides have the same NaN or Inf, or None if there are none.
    """

    a: Reals
    b: Reals
    distance: Reals
    steps: Counts | None = None
    count: Counts | None = None
    alike: npt.NDArray[np.bool_] | None = None
    _known: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def largest(self) -> float:
        """The largest distance; 0 without elements."""
        if "largest" not in self._known:
            self._known["largest"] = float(self.distance.max(initial=0.0))
        return self._known["largest"]

    def sum_of(self, terms: str) -> float:
        """Returns a sum over all elements, which is computed once for all metrics: of a * a ("aa"), b * b ("bb"), a * b ("ab"),
        the distances ("d") or their squares ("dd")."""
        if terms not in self._known:
            with np.errstate(invalid="ignore", over="ignore"):
                self._known[terms] = self.weighted(self._terms(terms))
        return self._known[terms]

    def _terms(self, terms: str) -> Reals:
        if terms == "d":
            return self.distance
        left, right = ({"a": self.a, "b": self.b, "d": self.distance}[letter] for letter in terms)
        return left * right

    def total(self, mask: npt.NDArray[np.bool_]) -> int:
        """Returns the number of elements in the rows where the mask is True."""
        return int(np.count_nonzero(mask)) if self.count is None else int(self.count[mask].sum())

    def weighted(self, values: Reals) -> float:
        """Returns the sum of a value per row over all elements."""
        return float(values.sum()) if self.count is None else float((values * self.count).sum())


def bits_equal(a: Array, b: Array) -> bool:
    """Returns whether both have the same dtype, shape and bytes."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return bool(np.array_equal(np.ascontiguousarray(a).view(unsigned), np.ascontiguousarray(b).view(unsigned)))


class Histograms:
    """A cache of joint histograms by tensor. A histogram is used again if both arrays are the very same objects. Of
    three sides, two often have the same bytes, which are then stored as one array."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Array, Array, tuple[Counts, Counts]]] = {}

    def get(self, name: str, a: Array, b: Array) -> tuple[Counts, Counts]:
        """Returns compute_joint_histogram(a, b), and keeps it under this name."""
        kept = self._kept.get(name)
        if kept is None or kept[0] is not a or kept[1] is not b:
            kept = self._kept[name] = (a, b, compute_joint_histogram(a, b))
        return kept[2]


class PairedValues:
    """Two tensors to compare.

    Attributes:
        a, b: the tensors.
        spec_a, spec_b: their specs.
        integers: whether both have the same integer type.
        one_sided: number of elements that are not finite on one side only, or not the same on both.
        both_sided: number of elements that are the same NaN or Inf on both sides.
        infinite: number of elements that are the same Inf on both sides.

    The last three are complete once blocks() is exhausted.

    The argument `histograms` is the cache of a's side, if both arrays are kept in memory anyway.
    """

    def __init__(
        self, a: Array, b: Array, spec_a: TensorSpec, spec_b: TensorSpec, histograms: Histograms | None = None
    ):
        self._histograms = histograms or Histograms()
        self.a, self.b, self.spec_a, self.spec_b = a, b, spec_a, spec_b
        self.integers = a.dtype == b.dtype and a.dtype.kind in "iub"
        self.one_sided = self.both_sided = self.infinite = 0

    def blocks(self) -> Iterator[Block]:
        """Yields all elements, block by block."""
        if self.integers and self.a.dtype.itemsize == 1 and self._single:
            yield self._histogram_block()
        else:
            yield from self._float_blocks()

    @property
    def dtype(self) -> str:
        """The type of both sides; "" if they have two, or are quantized."""
        plain = not self.spec_a.scale and not self.spec_b.scale
        return self.a.dtype.name if self.a.dtype == self.b.dtype and plain else ""

    def select(self, at: Counts) -> Block:
        """Returns the elements at these flat positions, one per row. The counts of elements that are not finite do not
        change."""
        qa, qb = self.a.reshape(-1)[at], self.b.reshape(-1)[at]
        a, b = self._real(at, qa, qb)
        counted = self.one_sided, self.both_sided, self.infinite
        block = self._block(a, b, qa, qb)
        self.one_sided, self.both_sided, self.infinite = counted
        return block

    @property
    def _single(self) -> bool:
        """Whether each side has at most one scale."""
        return len(self.spec_a.scale) <= 1 and len(self.spec_b.scale) <= 1

    @cached_property
    def _whole(self) -> tuple[Reals, Reals]:
        """The real values of both sides, flat."""
        return self.spec_a.dequantized(self.a).reshape(-1), self.spec_b.dequantized(self.b).reshape(-1)

    def _real(self, at: slice | Counts, qa: Array, qb: Array) -> tuple[Reals, Reals]:
        """Returns the real values of the elements at these flat positions, whose stored values are qa and qb."""
        if self._single:
            return _dequantize(qa, self.spec_a), _dequantize(qb, self.spec_b)
        return self._whole[0][at], self._whole[1][at]

    def _histogram_block(self) -> Block:
        rows, counts = self._histograms.get(self.spec_a.name, self.a, self.b)
        values = (
            np.arange(256, dtype=np.uint8).view(self.a.dtype if self.a.dtype.kind != "b" else np.uint8).astype(np.int64)
        )
        qa, qb = values[rows >> 8], values[rows & 255]
        a, b = _dequantize(values, self.spec_a)[rows >> 8], _dequantize(values, self.spec_b)[rows & 255]
        return Block(a, b, np.abs(a - b), qb - qa, counts)

    def _float_blocks(self) -> Iterator[Block]:
        flat_a, flat_b = self.a.reshape(-1), self.b.reshape(-1)
        for start in range(0, flat_a.size, FLOAT_BLOCK):
            part = slice(start, start + FLOAT_BLOCK)
            yield self._block(*self._real(part, flat_a[part], flat_b[part]), flat_a[part], flat_b[part])

    def _block(self, a: Reals, b: Reals, qa: Array, qb: Array) -> Block:
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(a - b)
        if self.integers:
            steps = qb.astype(np.int64) - qa.astype(np.int64)
            if qa.dtype.itemsize == 8:  # different int64 may be equal in float64, and their difference may wrap
                distance[(qa != qb) & (distance == 0)] = 1.0
                largest = np.iinfo(np.int64).max
                above = np.greater(qb, qa)
                wrapped = (steps > 0) != above
                steps[wrapped] = np.where(above, largest, -largest)[wrapped]
            return Block(a, b, distance, steps)
        plain = not self.spec_a.scale and not self.spec_b.scale
        if plain and qa.dtype.kind in "iu" and qb.dtype.kind in "iu":  # of two types; they may differ but be equal here
            distance[(qa != qb) & (distance == 0)] = 1.0
        return Block(a, b, distance) if np.isfinite(distance).all() else self._not_finite(a, b, distance)

    def _not_finite(self, a: Reals, b: Reals, distance: Reals) -> Block:
        wild = ~np.isfinite(a) | ~np.isfinite(b)
        alike = wild & ((a == b) | (np.isnan(a) & np.isnan(b)))
        self.both_sided += int(alike.sum())
        self.infinite += int((alike & np.isinf(a)).sum())
        self.one_sided += int((wild & ~alike).sum())
        distance[wild] = np.inf
        distance[alike] = 0.0
        return Block(np.where(alike, 0.0, a), np.where(alike, 0.0, b), distance, alike=alike)


def _dequantize(values: npt.NDArray[np.generic], spec: TensorSpec) -> Reals:
    """Returns the dequantized values of a tensor with at most one scale."""
    real = to_float64(values)
    if spec.scale:
        real -= float(spec.zero_point[0] if spec.zero_point else 0)
        real *= float(spec.scale[0])
    return real


def compute_joint_histogram(a: Array, b: Array) -> tuple[Counts, Counts]:
    """Returns the values of a * 256 + b that occur (a, b: the bit patterns of 8-bit elements), and how often each
    occurs."""
    left, right = np.ascontiguousarray(a).view(np.uint8).reshape(-1), np.ascontiguousarray(b).view(np.uint8).reshape(-1)
    counts = np.zeros(65536, np.int64)
    packed = np.empty(min(HISTOGRAM_BLOCK, max(left.size, 1)), np.int64)
    for start in range(0, left.size, HISTOGRAM_BLOCK):
        part = left[start : start + HISTOGRAM_BLOCK]
        keys = packed[: part.size]
        np.multiply(part, 256, out=keys, dtype=np.int64)
        keys += right[start : start + HISTOGRAM_BLOCK]
        counts += np.bincount(keys, minlength=65536)
    rows = np.flatnonzero(counts)
    return rows, counts[rows]
