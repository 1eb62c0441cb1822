"""Steps of weights, and windows of means, as rknn-toolkit2 chooses them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

FINEST = 2.0**14  # the tensor's largest step of weights, divided by the smallest
WINDOW = 7  # most elements of a dimension that one convolution averages
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a mean along one dimension. before, after: zeros at its ends."""

    count: int
    size: int
    before: int
    after: int


def divide(size: int) -> Windows:
    """Returns how the toolkit divides a dimension into windows of at most WINDOW elements."""
    number = ceil(size / WINDOW)
    each = size if number == 1 else ceil(size / 2) if number == 2 else WINDOW
    zeros = number * each - size
    return Windows(number, each, zeros // 2, zeros - zeros // 2)


def plain_steps(weights: Array, axis: int) -> Array:
    low, high = _ranges(weights, axis)
    return (high - low) / 255.0


def _ranges(weights: Array, axis: int) -> tuple[Array, Array]:
    axes = tuple(k for k in range(weights.ndim) if k != axis)
    return np.minimum(weights.min(axes), 0).astype(np.float64), np.maximum(weights.max(axes), 0).astype(np.float64)


def weight_steps(weights: Array, axis: int) -> tuple[Array, Array]:
    """Returns step and zero point of each channel, float64 and int64."""
    plain = plain_steps(weights, axis)
    step = np.maximum(plain, plain.max(initial=0.0) / FINEST)
    step = np.where(step > 0, step, 1.0)
    return step, np.rint(-128 - _ranges(weights, axis)[0] / step).astype(np.int64)
