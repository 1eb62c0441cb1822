"""Padding, or the gaps of a stretched input, reads something else than the zero point: a raw value, the edge, a
neighbouring row or plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.summands import Summands, reads_padding
from qverify.triage.altered_kernels.summed_elements import SummedElements, at_touched, fitting, sample
from qverify.triage.case import Array, Case, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "padding-reads"
LATE = -1
OPS = ("conv", "conv_transpose", "average_pool")
WHOLE = (
    "padding",
    "padding in rows above and below",
    "padding in columns left and right",
    "padding in rows above and below, beside no other padding,",
    "padding in columns left and right, beside no other padding,",
    "every gap between the elements of the stretched input",
    "every gap and all padding of the stretched input",
)
Source = Callable[[Case, Summands], Array]  # the elements that are read, without the zero point
Ways = Iterator[tuple[str, Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op in OPS else None
    if few is None or few.summands.read.all():
        return
    yield from fitting(case, _neighbours(), in_parts=True, bits=0.5)
    yield from fitting(case, _ways(case), in_parts=True)


def _neighbours() -> Ways:
    """Yields the faults of planes and rows that lie one after the other without padding between them."""
    for rows in ("above", "below"):
        way = partial(_filled, mask=_PLACES[f"padding {rows}, its corners apart,"], source=_memory)
        which = "last rows of the plane before it" if rows == "above" else "first rows of the plane after it"
        yield (
            f"the padding {rows} a plane holds the {which} in memory instead of zeros (zeros at the end of the tensor)",
            way,
        )
    for side in ("left", "right"):
        way = partial(_filled, mask=_PLACES[f"padding at the {side}, its corners apart,"], source=_memory)
        which = "end of the row before it" if side == "left" else "beginning of the next row"
        yield f"the padding at the {side} of a row reads on in memory: the {which} instead of zeros", way
        text = f"the padding at the {side} of a row reads on in its plane: the {which} instead of zeros"
        end = "zeros in the first row" if side == "left" else "zeros in the last row"
        yield f"{text} ({end})", partial(way.func, mask=way.keywords["mask"], source=_memory_of_plane)
    way = partial(_filled, mask=_PLACES["padding"], source=_memory)
    yield "padding is not told from data: positions outside of a row or plane read on in memory, its neighbours", way


def _ways(case: Case) -> Ways:
    low, high = limits(case.graph.spec(case.last.inputs[0] or ""))
    y = case.spec.zero_point[0]
    values = {
        0: "raw 0",
        low: f"raw {low}",
        high: f"raw {high}",
        -1: "raw -1",
        1: "raw 1",
        128: "raw 128",
    }
    values.setdefault(y, f"the output's zero point {y}")
    gaps = case.last.op == "conv_transpose"
    places = {where: mask for where, mask in _PLACES.items() if gaps or "gap" not in where}
    for where, mask in places.items():
        for value, text in values.items():
            way = partial(_filled, mask=mask, source=partial(_raw, value=value))
            yield f"{where} reads {text} instead of the zero point", way
        yield f"{where} reads the neighbouring row or plane in memory", partial(_filled, mask=mask, source=_memory)
    for where in [where for where in WHOLE if where in places]:
        for text, source in _ADDRESSES.items():
            yield f"{where} reads {text}", partial(_filled, mask=_PLACES[where], source=source)
    for lines in (2, 3, 4, 5, 7, 8, 16):
        way = partial(_filled, mask=_PLACES["padding below, its corners apart,"], source=partial(_ring, lines=lines))
        yield (
            f"padding below holds what a ring of {lines} line buffers held before: the input row {lines} rows above",
            way,
        )
    if case.last.op != "average_pool":
        yield "a position whose taps all lie in padding or gaps gets the zero point, without the bias", _bare
        yield "a position with some taps in padding or gaps gets no bias", partial(_no_bias, way=np.any)
        if y:
            yield "a position whose taps all lie in padding or gaps gets raw 0", partial(_bare, value=0)


def _filled(e: SummedElements, mask: Callable[[Summands, Array, Array], Any], source: Source) -> Array:
    return at_touched(e, reads_padding(e.case)[e.places], partial(_all_filled, mask=mask, source=source))


def _all_filled(e: SummedElements, mask: Callable[[Summands, Array, Array], Any], source: Source) -> Array:
    s = e.summands
    chosen = mask(s, _outside(e.case, s, 0), _outside(e.case, s, 1)) & ~s.read
    return e.added(np.where(chosen, source(e.case, s), s.centred_x) * s.centred_w)


def _size(case: Case) -> tuple[int, int]:
    shape = case.graph.spec(case.last.inputs[0] or "").shape
    return (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])


def _outside(case: Case, s: Summands, axis: int) -> Array:
    """Returns -1, 0 or 1 for positions that lie before, in or after the plane on this axis."""
    at, size = (s.row, s.column)[axis], _size(case)[axis]
    return np.asarray((at >= size).astype(np.int64) - (at < 0))


_PLACES: dict[str, Callable[[Summands, Array, Array], Any]] = {
    "padding": lambda s, r, c: ~s.stuffed,
    "padding in rows above and below": lambda s, r, c: r != 0,
    "padding in columns left and right": lambda s, r, c: c != 0,
    "padding in rows above and below, beside no other padding,": lambda s, r, c: (r != 0) & (c == 0),
    "padding in columns left and right, beside no other padding,": lambda s, r, c: (c != 0) & (r == 0),
    "padding above": lambda s, r, c: r < 0,
    "padding above, its corners apart,": lambda s, r, c: (r < 0) & (c == 0),
    "padding below": lambda s, r, c: r > 0,
    "padding below, its corners apart,": lambda s, r, c: (r > 0) & (c == 0),
    "padding at the left": lambda s, r, c: c < 0,
    "padding at the left, its corners apart,": lambda s, r, c: (c < 0) & (r == 0),
    "padding at the right": lambda s, r, c: c > 0,
    "padding at the right, its corners apart,": lambda s, r, c: (c > 0) & (r == 0),
    "padding in the corners": lambda s, r, c: (c != 0) & (r != 0),
    "every gap between the elements of the stretched input": lambda s, r, c: s.stuffed,
    "every gap and all padding of the stretched input": lambda s, r, c: np.ones((1, 1, 1, 1), bool),
}


def _raw(case: Case, s: Summands, value: int) -> Array:
    return np.reshape(value - np.asarray(s.zero_x, np.int64), (-1, 1, 1, 1))


def _read(case: Case, s: Summands, plane: Array, row: Array, column: Array) -> Array:
    """Returns the elements at these positions without the zero point; 0 outside of the tensor. A position outside of a
    row is in a neighbouring row, as in memory."""
    height, width = _size(case)
    x = case.inputs[case.last.inputs[0] or ""].reshape(-1)
    flat = (plane * height + row) * width + column
    inside = (flat >= 0) & (flat < x.size)
    return np.where(inside, x[np.clip(flat, 0, x.size - 1)].astype(np.int64) - s.zero_x, 0)


def _memory(case: Case, s: Summands) -> Array:
    return _read(case, s, s.plane, s.row, s.column)


def _memory_of_plane(case: Case, s: Summands) -> Array:
    height, width = _size(case)
    at = s.row * width + s.column
    return np.where((at >= 0) & (at < height * width), _memory(case, s), 0)


def _edge(case: Case, s: Summands) -> Array:
    height, width = _size(case)
    return _read(case, s, s.plane, np.clip(s.row, 0, height - 1), np.clip(s.column, 0, width - 1))


def _wrapped(case: Case, s: Summands) -> Array:
    height, width = _size(case)
    return _read(case, s, s.plane, s.row % height, s.column % width)


def _mirrored(case: Case, s: Summands, edge: int) -> Array:
    rows, columns = (_mirror(v, n, edge) for v, n in zip((s.row, s.column), _size(case), strict=True))
    return _read(case, s, s.plane, rows, columns)


def _mirror(at: Array, size: int, edge: int) -> Array:
    """Returns the positions mirrored at the ends of an axis. edge: 1 if the edge itself is repeated, otherwise 0."""
    low = np.where(at < 0, -at - edge, at)
    return np.clip(np.where(low >= size, 2 * size - 2 + edge - low, low), 0, size - 1)


def _neighbour(case: Case, s: Summands, by: int) -> Array:
    height, width = _size(case)
    plane = s.plane + by
    values = _read(case, s, plane, s.row % height, s.column % width)
    planes = int(np.prod(case.graph.spec(case.last.inputs[0] or "").shape[:2]))
    return np.where((plane >= 0) & (plane < planes), values, 0)


def _ring(case: Case, s: Summands, lines: int) -> Array:
    height = _size(case)[0]
    back = -(-np.maximum(s.row - height + 1, 0) // lines) * lines
    row = s.row - back
    return np.where((row >= 0) & (row < height), _read(case, s, s.plane, np.clip(row, 0, height - 1), s.column), 0)


def _first(case: Case, s: Summands) -> Array:
    return _read(case, s, s.plane, 0 * s.row, 0 * s.column)


_ADDRESSES: dict[str, Source] = {
    "the nearest element of the edge (or before the gap)": _edge,
    "the other end of the row or column (wrapped around)": _wrapped,
    "the input mirrored without its edge": partial(_mirrored, edge=0),
    "the input mirrored with its edge": partial(_mirrored, edge=1),
    "the plane before, at the other end of the row or column": partial(_neighbour, by=-1),
    "the plane after, at the other end of the row or column": partial(_neighbour, by=1),
    "the first element of the plane": _first,
}


def _nothing_read(e: SummedElements) -> Any:
    s = e.summands
    return ~np.broadcast_to(s.read, np.broadcast_shapes(s.read.shape, s.x.shape)).reshape(len(e.places), -1).any(1)


def _bare(e: SummedElements, value: int | None = None) -> Array:
    bare = e.requantized(0 * e.acc) if value is None else np.clip(0 * e.acc + value, e.sums.low, e.sums.high)
    return np.where(_nothing_read(e), bare, e.requantized(e.acc))


def _no_bias(e: SummedElements, way: Callable[..., Array]) -> Array:
    s = e.summands
    touched = way(
        ~np.broadcast_to(s.read, np.broadcast_shapes(s.read.shape, s.x.shape)).reshape(len(e.places), -1), axis=1
    )
    return e.requantized(e.acc - np.where(touched, e.bias, 0))
