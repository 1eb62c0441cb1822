"""Looks up values in a table that has an entry for every input."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.workers import run_blocks, split_range

Array = npt.NDArray[Any]
BLOCK = 1 << 17  # elements of a block


def look_up(table: Array, index: Array) -> Array:
    """Returns table[index]. index: unsigned, 8 or 16 bits. Raises IndexError for an index beyond the table."""
    if len(table) < 1 << 8 * index.dtype.itemsize:
        return table.take(index)
    flat, values = index.reshape(-1), np.empty(index.size, table.dtype)

    def block(part: slice) -> None:
        table.take(flat[part], out=values[part], mode="wrap")  # all indices are valid; mode "raise" would copy `values`

    run_blocks([partial(block, part) for part in split_range(index.size, BLOCK)])
    return values.reshape(index.shape)
