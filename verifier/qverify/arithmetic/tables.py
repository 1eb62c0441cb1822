"""Looks up values in a table that has an entry for every input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.workers import run_blocks, split_range

Array = npt.NDArray[Any]
BLOCK = 1 << 17  # elements of a block
MANY = 1 << 18  # elements from which a table of pairs takes less time than it takes to make it (measured)
BYTE = np.dtype(np.uint8)


def look_up(table: Array, index: Array) -> Array:
    """Returns table[index]. index: unsigned, 8 or 16 bits. Raises IndexError for an index beyond the table."""
    if len(table) < 1 << 8 * index.dtype.itemsize:
        return table.take(index)
    flat, values = index.reshape(-1), np.empty(index.size, table.dtype)

    def block(part: slice) -> None:
        table.take(flat[part], out=values[part], mode="wrap")  # all indices are valid; mode "raise" would copy `values`

    run_blocks([partial(block, part) for part in split_range(index.size, BLOCK)])
    return values.reshape(index.shape)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of every input and, if both are bytes and there are MANY elements, of every two inputs side by side.

    Attributes:
        values: by the unsigned input.
        pairs: two values as a uint16, by two inputs as a uint16, both as they are in memory; or None.
    """

    values: Array
    pairs: Array | None

    @classmethod
    def of(cls, values: Array, elements: int) -> Table:
        """Returns the table. elements: number of elements that are looked up at once."""
        if elements < MANY or values.dtype.itemsize > 1 or len(values) != 256:
            return cls(values, None)
        every = np.arange(1 << 16, dtype=np.uint16).view(BYTE).reshape(-1, 2)
        return cls(values, values.take(every).view(np.uint16).reshape(-1))

    def look_up(self, index: Array) -> Array:
        """Returns the values of a contiguous unsigned index. Raises IndexError for an index beyond the table."""
        if self.pairs is None or index.dtype != BYTE or index.size % 2:
            return look_up(self.values, index)
        values = look_up(self.pairs, index.reshape(-1).view(np.uint16))
        return values.view(self.values.dtype).reshape(index.shape)
