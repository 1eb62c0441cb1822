"""Arranges the elements that a reduction reads as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def reduced_rows(x: Array, mask: int) -> Array:
    """Returns x with the axes in the bit mask moved to the end and joined to one axis, in row-major order."""
    axes = [i for i in range(x.ndim) if mask >> i & 1]
    kept = [n for i, n in enumerate(x.shape) if i not in axes]
    return np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(*kept, -1)
