"""A row, column, channel or tile of the output is left out, repeated, or not the one the unit computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "dropped-or-repeated"
Box = tuple[slice, ...]
TILES = (2, 4, 8, 16, 32, 64)
NAMES = {4: ("batch", "channel", "row", "column"), 3: ("batch", "channel", "column"), 2: ("batch", "channel")}


def variants(case: Case) -> Iterator[FaultVariant]:
    yield from _runs(case)
    for text, box, chosen in boxes(case):
        values = np.unique(element_bits(case.recorded[box]))
        if len(values) == 1:
            value = case.recorded[box].reshape(-1)[0]
            chosen_value = 0.0 if value in (0, *case.spec.zero_point) else 8.0 * case.recorded.itemsize
            yield FaultVariant(
                f"{text} left out: {value} everywhere", partial(_filled, box=box, value=value), chosen + chosen_value
            )
        for axis in range(case.recorded.ndim):
            yield from _neighbours(case, text, box, axis, chosen)
    for axis in range(1, case.recorded.ndim):
        yield from _moved(case, axis)
        yield from _tiles(case, axis)


def boxes(case: Case) -> Iterator[tuple[str, Box, float]]:
    """Yields (text, box, bits of the choice). A box is the span of the differing elements on one or more axes and
    complete on the others."""
    shape = case.recorded.shape
    where = np.unravel_index(case.differing, shape)
    spans = [(int(w.min()), int(w.max()) + 1) for w in where]
    narrow = [i for i in range(len(shape)) if spans[i] != (0, shape[i])]
    for more in range(len(narrow)):
        for chosen in combinations(narrow, 1 + more):
            box = tuple(slice(*spans[i]) if i in chosen else slice(None) for i in range(len(shape)))
            cost = sum(log2_of(comb(shape[i] + 1, 2)) for i in chosen)
            yield " of ".join(_span(case, i, spans[i]) for i in reversed(chosen)), box, cost


def _span(case: Case, axis: int, span: tuple[int, int]) -> str:
    names = NAMES.get(case.recorded.ndim, ())
    name = names[axis] if names else f"axis {axis}, place"
    places = "batches" if name == "batch" else f"{name}s"
    return f"{name} {span[0]}" if span[1] - span[0] == 1 else f"{places} {span[0]} to {span[1] - 1}"


def _filled(case: Case, box: Box, value: Any) -> Array:
    output = case.healthy.copy()
    output[box] = value
    return output


def _neighbours(case: Case, text: str, box: Box, axis: int, chosen: float) -> Iterator[FaultVariant]:
    """Yields faults in which the box repeats the elements some positions earlier or later on the axis."""
    size = case.recorded.shape[axis]
    start, stop, _ = box[axis].indices(size)
    length = stop - start
    for by in sorted({-length, length, -1, 1, -start, size - stop} - {0}):
        if length < size and start + by >= 0 and stop + by <= size:
            way = f"{text} repeat those {abs(by)} {'before' if by < 0 else 'after'} on axis {axis}"
            yield FaultVariant(way, partial(_copied, box=box, axis=axis, by=by), chosen + 2, copied=True)
    if length > 1:
        for at_place in (start - 1, start, stop - 1, stop):
            if 0 <= at_place < size:
                way = f"{text} repeat place {at_place} of axis {axis}"
                yield FaultVariant(way, partial(_one, box=box, axis=axis, at_place=at_place), chosen + 2, copied=True)


def _copied(case: Case, box: Box, axis: int, by: int) -> Array:
    output, (start, stop, _) = case.healthy.copy(), box[axis].indices(case.healthy.shape[axis])
    source = (*box[:axis], slice(start + by, stop + by), *box[axis + 1 :])
    output[box] = case.healthy[source]
    return output


def _tiles(case: Case, axis: int) -> Iterator[FaultVariant]:
    """Yields faults in which one of the equal tiles of an axis repeats a neighbour, although by chance not all of its
    elements differ."""
    size, where = case.recorded.shape[axis], np.unravel_index(case.differing, case.recorded.shape)[axis]
    first, last = int(where.min()), int(where.max())
    for tile in TILES:
        start = first // tile * tile
        if last >= start + tile or size <= tile or (first, last + 1) == (start, start + tile):
            continue
        stop = min(start + tile, size)
        box = tuple(slice(start, stop) if i == axis else slice(None) for i in range(case.recorded.ndim))
        for by in (-tile, tile):
            if start + by >= 0 and stop + by <= size:
                text = f"{_span(case, axis, (start, stop))} repeat those {tile} {'before' if by < 0 else 'after'}"
                cost = log2_of(size / tile) + log2_of(2 * len(TILES))
                yield FaultVariant(text, partial(_copied, box=box, axis=axis, by=by), cost, copied=True)


def _one(case: Case, box: Box, axis: int, at_place: int) -> Array:
    output = case.healthy.copy()
    output[box] = case.healthy[(*box[:axis], slice(at_place, at_place + 1), *box[axis + 1 :])]
    return output


def _moved(case: Case, axis: int) -> Iterator[FaultVariant]:
    """Yields faults in which everything from some position on is one position too late or too early."""
    shape = case.recorded.shape
    first = int(np.unravel_index(case.differing, shape)[axis].min())
    names = NAMES.get(len(shape), ())
    name = names[axis] if names else f"place of axis {axis}"
    if first + 2 >= shape[axis]:
        return
    for start in {first, max(0, first - 1)}:
        for fill in (None, 0, *case.spec.zero_point[:1]):
            end = "the last twice" if fill is None else f"{fill} at the end"
            yield FaultVariant(
                f"{name} {start} dropped, all after it one too early, {end}",
                partial(_shifted, axis=axis, start=start, fill=fill),
                log2_of(shape[axis]),
                copied=True,
            )
        yield FaultVariant(
            f"{name} {start} twice, all after it one too far",
            partial(_inserted, axis=axis, start=start),
            log2_of(shape[axis]),
            copied=True,
        )


def _shifted(case: Case, axis: int, start: int, fill: Any) -> Array:
    output = case.healthy.copy()
    moved, healthy = np.moveaxis(output, axis, 0), np.moveaxis(case.healthy, axis, 0)
    moved[start:-1] = healthy[start + 1 :]
    if fill is not None:
        moved[-1] = fill
    return output


def _inserted(case: Case, axis: int, start: int) -> Array:
    output = case.healthy.copy()
    moved, healthy = np.moveaxis(output, axis, 0), np.moveaxis(case.healthy, axis, 0)
    moved[start + 1 :] = healthy[start:-1]
    return output


def _runs(case: Case) -> Iterator[FaultVariant]:
    """Yields faults of one run in memory, from the first to the last differing element."""
    first, last = int(case.differing[0]), int(case.differing[-1]) + 1
    size, flat = case.recorded.size, case.recorded.reshape(-1)
    where = f"elements {first} to {last - 1}" if last < size else f"everything from element {first} on"
    cost = log2_of(size) * (2 if last < size else 1)
    if len(np.unique(element_bits(flat))) == 1:
        yield FaultVariant(
            f"the whole output left out: {flat[0]} everywhere", partial(_run, first=0, last=size, value=flat[0]), 1
        )
    elif len(np.unique(element_bits(flat[first:last]))) == 1:
        value = flat[first]
        value_bits = 0.0 if value in (0, *case.spec.zero_point) else 8.0 * case.recorded.itemsize
        make: Callable[[Case], Array] = partial(_run, first=first, last=last, value=value)
        yield FaultVariant(f"{where} left out: {value} everywhere", make, cost + value_bits)


def _run(case: Case, first: int, last: int, value: Any) -> Array:
    output = case.healthy.copy().reshape(-1)
    output[first:last] = value
    return output.reshape(case.spec.shape)
