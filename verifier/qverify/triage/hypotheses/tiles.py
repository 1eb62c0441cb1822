"""Each tile of rows and columns is stored transposed, while the grid of tiles is correct."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.memory_sources import (
    MemorySource,
    is_permutation,
    memory_sources,
    output_from,
    reordered_runs,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "tiles"
LATE = 1
SIZES = (2, 4, 8, 16, 32, 64)


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case):
        if not _has_planes(place) or (place.kind == "output" and not is_permutation(case)):
            continue
        rows, columns = place.spec.shape[-2:]
        for size in SIZES:
            for phrase, whole in (("whole tiles", True), ("tiles, at the edge as much as is square,", False)):
                order = _turned(rows, columns, size, whole)
                if (order != np.arange(rows * columns)).any() and (whole or rows % size or columns % size):
                    text = f"{phrase} of {size}x{size} of {place.label} are transposed"
                    yield FaultVariant(text, output_from(place, partial(reordered_runs, order=order)))


def _has_planes(place: MemorySource) -> bool:
    """Returns whether the tensor is an activation with rows and columns, or the matrix of a fully connected layer."""
    shape = place.spec.shape
    return len(shape) > 1 and (place.kind != "constant" or (place.label == "the weights" and len(shape) == 2))


def _turned(rows: int, columns: int, size: int, whole: bool) -> Array:
    """Returns for every element of a plane the flat index from which it is read."""
    row, column = np.indices((rows, columns))
    from_row, from_column = row - row % size + column % size, column - column % size + row % size
    inside = (from_row < rows) & (from_column < columns)
    if whole:
        inside = (row - row % size + size <= rows) & (column - column % size + size <= columns)
    return np.where(inside, from_row * columns + from_column, row * columns + column).reshape(-1)
