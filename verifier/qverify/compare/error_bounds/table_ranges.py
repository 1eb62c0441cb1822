"""The smallest and largest value of a table within each of many intervals of its index."""

from __future__ import annotations

import numpy as np

from qverify.compare.error_bounds.bounded_values import Array, Reals


class TableRanges:
    """Ranges of a table. Each interval is covered by two runs of 2^k entries, whose extrema are prepared."""

    def __init__(self, table: Reals):
        self._lows, self._highs = [table], [table]
        length = 1
        while 2 * length <= len(table):
            low, high = self._lows[-1], self._highs[-1]
            self._lows.append(np.minimum(low[:-length], low[length:]))
            self._highs.append(np.maximum(high[:-length], high[length:]))
            length *= 2

    def between(self, first: Array, last: Array) -> tuple[Reals, Reals]:
        """Returns the smallest and the largest entry from each index in `first` to that in `last`, inclusive."""
        level = np.frexp((last - first + 1).astype(np.float64))[1] - 1  # 2^level entries at most
        low, high = np.empty(first.shape), np.empty(first.shape)
        for k in np.unique(level):
            at = level == k
            start, end = first[at], last[at] - (1 << int(k)) + 1
            low[at] = np.minimum(self._lows[k][start], self._lows[k][end])
            high[at] = np.maximum(self._highs[k][start], self._highs[k][end])
        return low, high
