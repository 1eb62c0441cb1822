"""Integer sums of products on BLAS: chooses the element type in which every partial sum is provably exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def exact_dtype(largest_x: int, row_weight: int, largest_bias: int = 0) -> np.dtype[Any]:
    """Returns float32 if largest_x * row_weight + largest_bias < 2^24, float64 if < 2^53, else int64.

    largest_x: max |x - zx|. row_weight: max over outputs of sum |w - zw|. Every partial sum, in any order, is bounded
    by their product, so no rounding can happen; NUMERICS facts of igemm by float BLAS."""
    bound = largest_x * row_weight + largest_bias
    if bound < 2**24:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if bound < 2**53 else np.dtype(np.int64)


def largest_centred(dtype: str, zero_point: int) -> int:
    """Returns max |x - zero_point| over the type's range."""
    limits = np.iinfo(dtype)
    return int(max(limits.max - zero_point, zero_point - limits.min))


def narrow_type(dtype: str) -> np.dtype[Any]:
    """Returns the narrowest integer type in which the magnitude of any value minus any zero point of this type is
    exact."""
    return np.dtype({1: np.int16, 2: np.int32}.get(np.dtype(dtype).itemsize, np.int64))


def wrapped_int32(acc: Array) -> Array:
    """Returns exact integers (any dtype) wrapped to int32, two's complement."""
    return acc.astype(np.int64).astype(np.int32)
