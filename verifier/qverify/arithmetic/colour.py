"""y_c = clip((sum_k m[c][k]*d_k + 2^(shift-1)) >> shift, 0, 255), d_k = x_k - offset_k, d_0 at least `floor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def convert_yuv(x: Array, words: Sequence[int]) -> Array:
    """Returns the converted picture, uint8 of x's shape. x: (N, 3, H, W), 8 bits. words: shift, floor, three offsets,
    and the matrix row by row. Raises ValueError for words out of range."""
    shift, floor = words[:2]
    if not 1 <= shift <= 24 or any(abs(w) > 1 << 24 for w in words[1:]):
        raise ValueError(f"shift {shift}, wanted 1 to 24, and words within 2^24")
    apart = x.astype(np.int64) - np.array(words[2:5]).reshape(1, 3, 1, 1)
    apart[:, 0] = np.maximum(apart[:, 0], floor)
    matrix = np.array(words[5:14]).reshape(3, 3)
    summed = np.stack([sum(matrix[c, k] * apart[:, k] for k in range(3)) for c in range(3)], axis=1)
    return np.asarray(((summed + (1 << shift - 1)) >> shift).clip(0, 255).astype(np.uint8))
