"""Two tensors of one spec as (a, b, count) blocks, once: 8-bit ones as a 256 x 256 joint histogram, others in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
PIECE = 1 << 20


def blocks(spec: TensorSpec, a: Array, b: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
    """(a real, b real, distance in LSB or empty, count) in float64 and int64. Elements are never sampled."""
    if a.dtype.itemsize == 1 and a.dtype.kind in "iu" and len(spec.scale) <= 1:
        yield _histogram(spec, a, b)
        return
    scale, zero = _per_element(spec)
    flat_a, flat_b = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    for first in range(0, flat_a.size, PIECE):
        cut = slice(first, first + PIECE)
        raw_a, raw_b = flat_a[cut].astype(np.float64), flat_b[cut].astype(np.float64)
        steps = raw_a - raw_b if a.dtype.kind in "iu" else np.empty(0)
        if scale is not None and zero is not None:
            raw_a, raw_b = (raw_a - zero[cut]) * scale[cut], (raw_b - zero[cut]) * scale[cut]
        yield raw_a, raw_b, steps, np.ones(len(raw_a), np.int64)


def _histogram(spec: TensorSpec, a: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    counts = np.zeros(65536, np.int64)
    flat_a, flat_b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    for first in range(0, flat_a.size, PIECE):
        cut = slice(first, first + PIECE)
        counts += np.bincount(flat_a[cut].astype(np.uint16) << 8 | flat_b[cut], minlength=65536)
    at = np.flatnonzero(counts)
    raw = [x.astype(np.uint8).view(a.dtype).astype(np.float64) for x in (at >> 8, at & 255)]
    scale, zero = (spec.scale[0], spec.zero_point[0]) if spec.scale else (1.0, 0)
    return (raw[0] - zero) * scale, (raw[1] - zero) * scale, raw[0] - raw[1], counts[at]


def _per_element(spec: TensorSpec) -> tuple[Array | None, Array | None]:
    if not spec.scale:
        return None, None
    along = [1] * len(spec.shape)
    if len(spec.scale) > 1:
        along[spec.channel_axis] = -1
    pair = (
        np.broadcast_to(np.array(v, np.float64).reshape(along), spec.shape).reshape(-1)
        for v in (spec.scale, spec.zero_point)
    )
    scale, zero = pair
    return scale, zero
