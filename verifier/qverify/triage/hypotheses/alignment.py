"""Rows or planes are written with another stride than they are read with: padding is read as data, or data is
skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.memory_sources import MemorySource, memory_sources, output_from
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "alignment"
LATE = 1
MULTIPLES = (2, 4, 8, 16, 32, 64, 128)


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.raw is not None and case.spec.aligned_shape != case.spec.shape:
        yield FaultVariant("alignment: the output's padding is read as data", partial(_raw, raw=case.raw))
    for place in memory_sources(case):
        if place.label in ("the bias", "the scales", "the table"):
            continue
        for text, run, stride in _strides(place):
            yield from _filled(
                case, place, partial(padded, run=run, stride=stride), _describe(place, text, stride, run)
            )
            yield from _filled(
                case, place, partial(skipped, run=run, stride=stride), _describe(place, text, run, stride)
            )


def _describe(place: MemorySource, rows: str, written: int, read: int) -> str:
    return f"alignment: {place.label} is written with {rows} of {written} elements and read with {read}"


def _strides(place: MemorySource) -> Iterator[tuple[str, int, int]]:
    """Yields ("rows" or "planes", number of elements of one, stride). The strides are rounded up to a multiple, or one
    multiple more if the size is one already."""
    shape, aligned = place.spec.shape, place.spec.aligned_shape
    tried = set()
    for text, axis in (("rows", -1), ("planes", -2)):
        run = prod(shape[axis:])
        if run == place.spec.elements:
            continue
        rounded = [-(-run // m) * m for m in MULTIPLES]
        further = [run + m for m in MULTIPLES if run % m == 0]
        for stride in [prod(aligned[axis:]), *rounded, *further, run + 1, run - 1]:
            if stride != run and stride > 0 and (run, stride) not in tried and stride <= max(4 * run, MULTIPLES[-1]):
                tried.add((run, stride))
                yield text, run, stride


def _filled(case: Case, place: MemorySource, move: Callable[..., Array], phrase: str) -> Iterator[FaultVariant]:
    """Yields the fault with each value that memory may contain where nothing was written; for the output, also with the
    recorded values."""
    fills = {0: "zeros"} | {zero: "the zero point" for zero in place.spec.zero_point[:1]}
    if place.kind == "output":
        free = move(np.arange(1, case.recorded.size + 1), fill=0) == 0
        left = np.unique(element_bits(case.recorded)[free])
        if len(left) == 1 and case.spec.numpy_dtype.kind in "iu":
            value = int(case.recorded.reshape(-1)[free][0])
            fills.setdefault(value, str(value))
        elif len(left) > 1:
            text = f"{phrase}; {np.count_nonzero(free)} elements are left from earlier memory contents"
            yield FaultVariant(text, partial(_over_garbage, move=move, free=free), copied=True, free=free)
    for value, filled in fills.items():
        yield FaultVariant(
            f"{phrase}; {filled} where nothing was written", output_from(place, partial(move, fill=value))
        )


def _over_garbage(case: Case, move: Callable[..., Array], free: Array) -> Array:
    moved = np.ascontiguousarray(move(case.healthy, fill=0))
    return np.where(free, case.recorded.reshape(-1), moved.reshape(-1)).reshape(moved.shape)


def padded(values: Array, run: int, stride: int, fill: int) -> Array:
    """Returns the elements as they are read if rows of `run` elements are written every `stride` elements, but read as
    dense rows."""
    rows = values.reshape(-1, run)
    if stride < run:  # the next row overwrites the end of the one before
        return _overlapping(rows, stride, fill).reshape(values.shape)
    whole = np.full((len(rows), stride), fill, values.dtype)
    whole[:, :run] = rows
    return whole.reshape(-1)[: values.size].reshape(values.shape)


def _overlapping(rows: Array, stride: int, fill: int) -> Array:
    flat = np.full(rows.size, fill, rows.dtype)
    for at_row, row in enumerate(rows):
        flat[at_row * stride : at_row * stride + len(row)] = row
    return flat


def skipped(values: Array, run: int, stride: int, fill: int) -> Array:
    """Returns the elements as they are read if rows are written densely, but read every `stride` elements; elements
    beyond the end are `fill`."""
    rows = values.size // run
    positions = (np.arange(rows)[:, None] * stride + np.arange(run)).reshape(-1)
    flat = values.reshape(-1)
    beyond = positions >= flat.size
    read = flat[np.where(beyond, 0, positions)]
    read[beyond] = fill
    return read.reshape(values.shape)


def _raw(case: Case, raw: bytes) -> Array:
    """Returns the computed elements with the board's own padding between them, read as if there were no padding."""
    spec = case.spec
    whole = np.frombuffer(raw, spec.numpy_dtype).reshape(spec.aligned_shape).copy()
    whole[tuple(slice(0, n) for n in spec.shape)] = case.healthy
    return whole.reshape(-1)[: spec.elements].reshape(spec.shape)
