"""Elements as float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def to_float64(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Returns the elements as float64, a copy. A signalling NaN, which numpy warns of, is a NaN."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)
