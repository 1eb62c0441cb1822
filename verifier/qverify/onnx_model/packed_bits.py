"""Unpacks elements of 2 and 4 bits, which onnxruntime's operators for weights in blocks store several to a byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def unpack(packed: Array, bits: int) -> Array:
    """Returns the elements packed into the bytes along the last axis as uint8; those in the low bits come first. bits: 2, 4
    or 8."""
    parts = [(packed >> np.uint8(at)) & np.uint8((1 << bits) - 1) for at in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)
