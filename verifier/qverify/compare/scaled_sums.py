"""The integer sums of a node, each of which one scale multiplies. Every arithmetic of the catalogue rises with the sum, so
that the smallest and the largest sum of each scale and recorded integer stand for all between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from qverify.arithmetic.linear import apply_to_rows
from qverify.compare.error_bounds.bounded_values import Array, Reals

RUN = 1 << 16  # elements that are computed at once, so that they stay in a second-level cache
CODES = 256  # values of a recorded integer of 8 bits

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums, int64, and the number of the scale of each."""

    acc: Array
    number: Array


At = Array | Sums  # flat positions in the output, or sums themselves


def remember(function: Callable[[At], T]) -> Callable[[At], T]:
    """Returns a function that does not compute again what it is asked for the same object as before."""
    last: list[tuple[At, T]] = []

    def call(at: At) -> T:
        kept = last[0] if last else None
        if kept is None or kept[0] is not at:
            kept = at, function(at)
            last[:] = [kept]
        return kept[1]

    return call


class ScaledSums:
    """The sums of a node.

    Args:
        take: function that returns the sums at flat positions, int64.
        whole: function that returns all sums, flat integers.
        scales: the scales, in LSB of the output.
        inner: number of neighbouring elements that have one scale; those of the scales follow each other, again and
            again.
        numbers: the number of the scale of each element, if it is another.
    """

    def __init__(
        self,
        take: Callable[[Array], Array],
        whole: Callable[[], Array],
        scales: Reals,
        inner: int = 1,
        numbers: Array | None = None,
    ):
        self._take, self.whole, self.scales, self._inner, self._numbers = take, whole, scales, inner, numbers
        self._single = scales.astype(np.float32)
        self.read = remember(self._read)
        self.steps = remember(self._multiply)

    def _read(self, at: At) -> Sums:
        return at if isinstance(at, Sums) else Sums(self._take(at), self._find_numbers(at))

    def _multiply(self, at: At) -> Reals:
        sums = self.read(at)
        return np.asarray(sums.acc * self.scales[sums.number], np.float64)

    def _find_numbers(self, at: Array) -> Array:
        if self._numbers is not None:
            return self._numbers[at]
        return at // self._inner % len(self.scales) if len(self.scales) > 1 else np.zeros_like(at)

    def cut(self, elements: int) -> Iterator[slice]:
        """Yields runs of elements: whole rows of one scale each or, within one row, some elements of it."""
        several = len(self.scales) > 1 and self._numbers is None
        row = (self._inner if self._inner > 1 else len(self.scales)) if several else 1
        step = RUN // row * row
        if step:
            yield from (slice(at, min(at + step, elements)) for at in range(0, elements, step))
            return
        for start in range(0, elements, row):
            end = min(start + row, elements)
            yield from (slice(at, min(at + RUN, end)) for at in range(start, end, RUN))

    def approximate(self, run: slice) -> Array:
        """Returns the sums of a run in float32, scaled, which may be overwritten."""
        value = self.whole()[run].astype(np.float32)
        if len(self.scales) == 1:
            value *= self._single[0]
        elif self._numbers is not None:
            value *= self._single[self._numbers[run]]
        else:
            rows = self._find_row_numbers(run)
            apply_to_rows(np.multiply, value.reshape(_shape(rows)), self._single[rows])
        return value

    def _find_row_numbers(self, run: slice) -> Array:
        """Returns the numbers of the scales of a run, as a column for its rows or, where neighbours have different
        scales, as a row."""
        count = len(self.scales)
        if self._inner > 1:
            return np.arange(run.start // self._inner, -(-run.stop // self._inner))[:, None] % count
        return np.arange(run.start % count, run.start % count + min(run.stop - run.start, count))

    def find_extremes(self, recorded: Array, at: Array | None = None) -> tuple[Sums, Array] | None:
        """Returns, for each scale and recorded integer, the smallest and the largest sum, and the integers of these sums.
        Returns None if they would be more than the elements. recorded: flat, 8 bits. at: the elements that count, all if None."""
        groups = len(self.scales) * CODES
        if groups > (len(recorded) if at is None else len(at)):
            return None
        acc, codes = self.whole(), recorded.view(np.uint8)
        low, high = (np.full(groups, f(np.iinfo(acc.dtype)), acc.dtype) for f in (lambda i: i.max, lambda i: i.min))
        parts = self._group_runs(codes) if at is None else self._group_positions(codes, at)
        for some, group in parts:
            np.minimum.at(low, group, acc[some])
            np.maximum.at(high, group, acc[some])
        group = np.flatnonzero(low <= high)
        sums = np.concatenate([low[group], high[group]]).astype(np.int64)
        group = np.concatenate([group, group])
        return Sums(sums, group // CODES), (group % CODES).astype(np.uint8).view(recorded.dtype)

    def _group_runs(self, codes: Array) -> Iterator[tuple[slice, Array]]:
        for run in self.cut(len(codes)):
            if self._numbers is not None:
                yield run, self._numbers[run].astype(np.int64) * CODES + codes[run]
            elif len(self.scales) == 1:
                yield run, codes[run].astype(np.int64)
            else:
                rows = self._find_row_numbers(run)
                yield run, (rows * CODES + codes[run].reshape(_shape(rows))).reshape(-1)

    def _group_positions(self, codes: Array, at: Array) -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(at), RUN):
            some = at[start : start + RUN]
            yield some, self._find_numbers(some).astype(np.int64) * CODES + codes[some]


def _shape(rows: Array) -> tuple[int, int]:
    """Returns the shape of a run with these numbers of scales, as _find_row_numbers() returns them."""
    return (len(rows), -1) if rows.ndim > 1 else (-1, len(rows))
