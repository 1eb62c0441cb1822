"""A convolution gathers its input into panels in which elements of the padding are not cleared: they keep the values
of the same place of the tile before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summands import reads_padding
from qverify.triage.altered_kernels.summed_elements import SummedElements, at_touched, fitting, sample, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "stale-panel"
LATE = -1
OPS = ("conv",)
TILES = (64, 8, 16, 32, 128, 256)
MAX_BACK = 64  # earlier tiles that are examined


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op == "conv" else None
    if few is not None and not few.summands.read.all():
        ways = [*_ways()]
        yield from fitting(case, ways[:-1:2], in_parts=True, bits=0.4)
        yield from fitting(case, [*ways[1:-1:2], ways[-1]], in_parts=True, bits=0.5)


def _ways() -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    for tile in TILES:
        for which, rows_only in (
            ("a kernel tap whose row lies in the padding", True),
            ("a kernel tap in the padding", False),
        ):
            text = f"the gathered input line of {which} is not cleared: it keeps what the same place held"
            yield f"{text} for the tile of {tile} pixels before", partial(_stale, tile=tile, rows_only=rows_only)
    text = "the gathered input line of a kernel tap whose row lies in the padding is not cleared: it keeps what the same place held"
    yield f"{text} for the output row before", partial(_stale, tile=0, rows_only=True)


def _stale(e: SummedElements, tile: int, rows_only: bool) -> Array:
    return at_touched(e, reads_padding(e.case)[e.places], partial(_all_stale, tile=tile, rows_only=rows_only))


def _all_stale(e: SummedElements, tile: int, rows_only: bool) -> Array:
    s, case = e.summands, e.case
    shape = case.graph.spec(case.last.inputs[0] or "").shape
    height, width = (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])
    x = case.inputs[case.last.inputs[0] or ""].reshape(-1)
    full = np.broadcast_shapes(s.read.shape, s.x.shape)
    row_in = np.broadcast_to((s.row >= 0) & (s.row < height), full)
    column_in = np.broadcast_to((s.column >= 0) & (s.column < width), full)
    pending = ~row_in if rows_only else ~(row_in & column_in)
    value = np.where(pending, 0, np.broadcast_to(s.centred_x, full))
    for plane, row, column in _earlier(e, tile):
        if not (pending & (plane >= 0)).any():
            break
        inside_row = (row >= 0) & (row < height)
        inside = inside_row & (column >= 0) & (column < width)
        written = pending & (inside_row if rows_only else inside)
        at = (np.maximum(plane, 0) * height + np.clip(row, 0, height - 1)) * width + np.clip(column, 0, width - 1)
        earlier = np.where(inside, x[at].astype(np.int64) - s.zero_x, 0)
        exists = plane >= 0
        value = np.where(written & exists, earlier, value)
        pending = pending & ~(written & exists)
    return e.added(value * s.centred_w)


def _earlier(e: SummedElements, tile: int) -> Iterator[tuple[Array, Array, Array]]:
    """Yields the plane (below 0 if there is none), row and column that every tap read for the same place of earlier
    tiles, the latest tile first."""
    case, s, words = e.case, e.summands, words_of(e.case)
    shape = case.spec.shape
    rows, columns = (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])
    tile = tile or columns
    pixels, per_in = rows * columns, s.plane.shape[1]
    tiles = -(-pixels // tile)
    pixel = (e.places % pixels).reshape(-1, 1, 1, 1)
    offset, number, group = pixel % tile, pixel // tile, s.plane[:, :1] // per_in
    row, column = s.row - pixel // columns * words["stride_h"], s.column - pixel % columns * words["stride_w"]
    for _ in range(MAX_BACK):
        number = number - 1
        short = (number == -1) & ((tiles - 1) * tile + offset >= pixels)  # the last tile does not have this place
        group = np.where(number < 0, group - 1, group)
        number = np.where(number < 0, np.maximum(tiles - 1 - short, 0), number)
        at = number * tile + offset
        plane = np.where(at < pixels, group * per_in + np.arange(per_in).reshape(1, -1, 1, 1), -1)
        yield plane, row + at // columns * words["stride_h"], column + at % columns * words["stride_w"]
