"""Tensor digest: XXH64 of the valid bytes in stored axis order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash


def bytes_digest(data: bytes | memoryview) -> str:
    """Returns 16 hex digits of XXH64, seed 0."""
    return xxhash.xxh64_hexdigest(data)


def tensor_digest(values: npt.NDArray[Any]) -> str:
    """Returns 16 hex digits of XXH64, seed 0, over the elements in row-major order, little-endian."""
    dense = np.ascontiguousarray(values)
    return xxhash.xxh64_hexdigest(dense.reshape(-1).view(np.uint8).data if dense.size else b"")
