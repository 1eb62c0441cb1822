"""Sums of many small whole numbers along the first axis, several times as fast as numpy's with a wide type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BYTES_OF_A_BLOCK = 255  # numbers below 256 whose sum fits 16 bits, and of which those below 2 fit 8


def sum_rows(values: Array, of: Callable[[Array], Array]) -> Array:
    """Returns the sums over the first axis of what `of` makes of the values, int64 with the shape of the other axes.

    of: takes some of the rows, and returns bool, or integers of 8 bits."""
    total = np.zeros(values.shape[1:], np.int64)
    for at in range(0, len(values), BYTES_OF_A_BLOCK):
        block = of(values[at : at + BYTES_OF_A_BLOCK])
        is_bool = block.dtype == np.bool_
        kind = np.uint8 if is_bool else np.int16 if block.dtype == np.int8 else np.uint16
        total += np.add.reduce(block.view(np.uint8) if is_bool else block, axis=0, dtype=kind)
    return total
