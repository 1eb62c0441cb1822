"""Lengths of vectors, with the same bits on every processor: sums of products, never BLAS."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def norm(values: npt.NDArray[np.float64]) -> float:
    """Returns the euclidean length of all elements."""
    return float(np.sqrt((values * values).sum()))
