"""Computes maps of the places where two tensors differ: |a - b| over height and width, down-sampled by maximum, of all
channels together and of the worst ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, isqrt

import numpy as np
import numpy.typing as npt

from qverify.compare.paired_values import FLOAT_BLOCK, PairedValues
from qverify.report.drawings import ErrorMap, ErrorMaps
from qverify.tensors.recording import Array

MAX_CELLS, WORST = 48, 3  # largest number of cells along a side; number of channels drawn besides the map of all
LONGEST = 1 << 16  # largest number of elements in a row
TALLEST = 16  # height by width of a plane; rows of boxes or scores are no picture, and a map of them would be a line
Reals = npt.NDArray[np.float64]


def map_errors(values: PairedValues) -> ErrorMaps:
    """Returns the maps of two tensors of equal shape that are not empty. The last two dimensions longer than 1 are
    height and width, those before them channels. Differences are in LSB if both sides have the same integer type, else
    of real values."""
    a, b, folded = _split_planes(values)
    rows, columns = _compute_edges(a.shape[1]), _compute_edges(a.shape[2])
    whole, totals = np.zeros((len(rows) - 1, len(columns) - 1)), np.zeros(len(a))
    for start, at, cells, sums in _pool_bands(a, b, rows, columns, values.integers):
        whole[at] = np.maximum(whole[at], cells.max(axis=0))
        totals[start : start + len(sums)] += sums
    maps = [ErrorMap(None, whole, float(totals.sum()))]
    worst = [int(c) for c in np.argsort(-totals, kind="stable")[:WORST] if totals[c] > 0] if len(a) > 1 else []
    for channel in worst:
        part = np.zeros_like(whole)
        for _, at, cells, _ in _pool_bands(a[channel][None], b[channel][None], rows, columns, values.integers):
            part[at] = cells[0]
        maps.append(ErrorMap(channel, part, float(totals[channel])))
    return ErrorMaps((a.shape[1], a.shape[2]), folded, len(a), maps)


def _split_planes(values: PairedValues) -> tuple[Array, Array, bool]:
    """Returns both tensors as (channels, height, width), and whether rows were folded to get this shape. Elements are
    integers if both sides have the same integer type, else real values."""
    a, b = values.a, values.b
    if not values.integers:
        a, b = (s.dequantized(v) if s.scale else v for v, s in ((a, values.spec_a), (b, values.spec_b)))
    shape = [n for n in a.shape if n > 1]
    if (
        len(shape) < 2
        or shape[-1] > LONGEST
        or (len(shape) == 2 and shape[0] > MAX_CELLS and shape[0] > TALLEST * shape[1])
    ):
        width = isqrt(a.size - 1) + 1
        height = ceil(a.size / width)
        return _fold(a, height, width), _fold(b, height, width), True
    return a.reshape(-1, *shape[-2:]), b.reshape(-1, *shape[-2:]), False


def _fold(value: Array, height: int, width: int) -> Array:
    """Returns the elements in rows of this width. The last row is filled with 0."""
    return np.pad(value.reshape(-1), (0, height * width - value.size)).reshape(1, height, width)


def _compute_edges(length: int) -> npt.NDArray[np.int64]:
    """Returns the positions at which the cells along a side begin, and the end of the last one."""
    cells = min(length, MAX_CELLS)
    return np.arange(cells + 1, dtype=np.int64) * length // cells


def _pool_bands(
    a: Array, b: Array, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], integers: bool
) -> Iterator[tuple[int, int, Reals, Reals]]:
    """Yields, for each band of rows of some channels: the first channel, the index of the row of cells, the cells
    (channels, columns), and the sum of |a - b| of each channel."""
    for at, (top, bottom) in enumerate(pairwise(rows)):
        step = -(-FLOAT_BLOCK // a[0, top:bottom].size)  # rounded up, so that it is at least 1
        for start in range(0, len(a), step):
            part = np.s_[start : start + step, top:bottom]
            apart = _measure_distance(a[part], b[part], integers)
            cells = np.maximum.reduceat(apart.max(axis=1), columns[:-1], axis=1)
            yield start, at, cells.astype(np.float64), apart.sum(axis=(1, 2), dtype=np.float64)


def _measure_distance(a: Array, b: Array, integers: bool) -> npt.NDArray[np.generic]:
    if integers:
        return _measure_integer_distance(a, b)
    with np.errstate(invalid="ignore", over="ignore"):
        real_a, real_b = a.astype(np.float64), b.astype(np.float64)
        apart = np.abs(real_a - real_b)
    wild = ~np.isfinite(real_a) | ~np.isfinite(real_b)
    if wild.any():
        alike = (real_a == real_b) | (np.isnan(real_a) & np.isnan(real_b))
        apart[wild] = np.where(alike[wild], 0.0, np.inf)
    return apart


def _measure_integer_distance(a: Array, b: Array) -> npt.NDArray[np.generic]:
    """Returns |a - b| of integers, in the unsigned type of their size."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    if a.dtype.kind == "b":
        return np.not_equal(a, b).astype(np.uint8)
    with np.errstate(over="ignore"):
        larger, smaller = np.maximum(a, b).astype(unsigned), np.minimum(a, b).astype(unsigned)
        return np.subtract(larger, smaller)
