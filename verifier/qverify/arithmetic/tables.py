"""Functions that are tables of all their values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.workers import run_blocks, runs

Array = npt.NDArray[Any]
BLOCK = 1 << 17  # elements that are worth a block


def look_up(table: Array, index: Array) -> Array:
    """Returns table[index], index unsigned of 8 or 16 bits. Raises IndexError beyond the table."""
    if len(table) < 1 << 8 * index.dtype.itemsize:
        return table.take(index)
    flat, made = index.reshape(-1), np.empty(index.size, table.dtype)

    def block(part: slice) -> None:
        table.take(flat[part], out=made[part], mode="wrap")  # no index is beyond the table; "raise" would copy made

    run_blocks([partial(block, part) for part in runs(index.size, BLOCK)])
    return made.reshape(index.shape)
