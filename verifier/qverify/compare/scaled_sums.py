"""The integer sums of a node, each of which one scale multiplies. Every arithmetic of the catalogue rises with the sum, so
that the smallest and the largest sum of each scale and recorded integer stand for all between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from qverify.compare.error_bounds.bounded_values import Array, Reals

RUN = 1 << 16  # elements that are computed at once, so that they stay in a second-level cache
CODES = 256  # values of a recorded integer of 8 bits
FEW_GROUPS = 1 << 16  # for which memory is always given

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums, int64, and the number of the scale of each."""

    acc: Array
    number: Array


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Stored integers of two operands."""

    first: Array
    second: Array


At = Array | Sums | Pair  # flat positions in the output, or what is computed there from


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
        self.read = remember(self._read)
        self.steps = remember(self._multiply)

    def _read(self, at: At) -> Sums:
        assert not isinstance(at, Pair)
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

    def _find_row_numbers(self, run: slice) -> Array:
        """Returns the numbers of the scales of a run, as a column for its rows or, where neighbours have different
        scales, as a row."""
        count = len(self.scales)
        if self._inner > 1:
            return np.arange(run.start // self._inner, -(-run.stop // self._inner))[:, None] % count
        return np.arange(run.start % count, run.start % count + min(run.stop - run.start, count))

    def find_extremes(self, recorded: Array) -> tuple[Sums, Array] | None:
        """Returns, for each scale and recorded integer, the smallest and the largest sum, and the integers of these sums.
        Returns None if there are many scales for so few elements. recorded: flat, 8 bits."""
        groups = len(self.scales) * CODES
        if groups > len(recorded) * 4 + FEW_GROUPS:
            return None
        acc, codes = self.whole(), recorded.view(np.uint8)
        limits = np.iinfo(acc.dtype)
        low, high = (np.full(groups, end, acc.dtype) for end in (limits.max, limits.min))
        for run in self.cut(len(codes)):
            group = self._group(run, codes[run])
            np.minimum.at(low, group, acc[run])
            np.maximum.at(high, group, acc[run])
        group = np.flatnonzero(low <= high)
        sums = np.concatenate([low[group], high[group]]).astype(np.int64)
        group = np.concatenate([group, group])
        return Sums(sums, group // CODES), (group % CODES).astype(np.uint8).view(recorded.dtype)

    def _group(self, run: slice, codes: Array) -> Array:
        if self._numbers is not None:
            return self._numbers[run].astype(np.int64) * CODES + codes
        if len(self.scales) == 1:
            return codes.astype(np.int64)
        rows = self._find_row_numbers(run)
        shape = (len(rows), -1) if rows.ndim > 1 else (-1, len(rows))
        return np.asarray(rows * CODES + codes.reshape(shape)).reshape(-1)


NOTHING = np.iinfo(np.int16).min


def find_codes(elements: int, join: Callable[[slice], Array], recorded: Array) -> tuple[Array, Array] | None:
    """Returns the codes that occur and what is recorded of each; None if elements of one code differ.

    Args:
        elements: number of elements.
        join: function that returns the codes of a run of elements, int64 below 2^16.
        recorded: flat, 8 bits.
    """
    table = np.full(1 << 16, NOTHING, np.int16)
    for run in (slice(start, min(start + RUN, elements)) for start in range(0, elements, RUN)):
        codes, some = join(run), recorded[run].astype(np.int16)
        before = table[codes]
        if not ((before == some) | (before == NOTHING)).all():
            return None
        table[codes] = some
        if not np.array_equal(table[codes], some):
            return None
    found = np.flatnonzero(table != NOTHING)
    return found, table[found].astype(recorded.dtype)
