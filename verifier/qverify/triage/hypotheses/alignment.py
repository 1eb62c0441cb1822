"""Rows or planes are written with another stride than they are read with: padding is read as data, or data is skipped."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import Variant
from qverify.triage.places import Place, at, places

NAME = "alignment"
LATE = True
MULTIPLES = (2, 4, 8, 16, 32, 64, 128)


def variants(case: Case) -> Iterator[Variant]:
    if case.raw is not None and case.spec.aligned_shape != case.spec.shape:
        yield Variant("alignment: the output's padding is read as data", partial(_raw, raw=case.raw))
    for place in places(case):
        if place.said in ("the bias", "the scales", "the table"):
            continue
        for said, run, stride in _strides(place):
            for filled, fill in _fills(case, place, run, stride):
                yield Variant(
                    f"alignment: {place.said} is written with {said} of {stride} elements and read with {run}; {filled} between",
                    at(place, partial(padded, run=run, stride=stride, fill=fill)),
                )
                yield Variant(
                    f"alignment: {place.said} is written with {said} of {run} elements and read with {stride}; {filled} at the end",
                    at(place, partial(skipped, run=run, stride=stride, fill=fill)),
                )


def _strides(place: Place) -> Iterator[tuple[str, int, int]]:
    """What is padded, its elements, the stride."""
    shape, aligned = place.spec.shape, place.spec.aligned_shape
    seen = set()
    for said, axis in (("rows", -1), ("planes", -2)):
        run = prod(shape[axis:])
        if len(shape) < -axis + 1 or run == place.spec.elements:
            continue
        for stride in [prod(aligned[axis:]), *(-(-run // m) * m for m in MULTIPLES), run + 1, run - 1]:
            if stride != run and stride > 0 and (run, stride) not in seen and stride <= max(4 * run, MULTIPLES[-1]):
                seen.add((run, stride))
                yield said, run, stride


def _fills(case: Case, place: Place, run: int, stride: int) -> list[tuple[str, int]]:
    """What stands in padding; of the output also the one value that was recorded there."""
    found = {0: "zeros"} | {zero: "the zero point" for zero in place.spec.zero_point[:1]}
    if place.kind == "output" and place.spec.numpy_dtype.kind in "iu" and stride > run:
        numbered = padded(np.arange(1, case.recorded.size + 1), run, stride, 0)
        values = np.unique(case.recorded.reshape(-1)[numbered == 0])
        if len(values) == 1:
            found.setdefault(int(values[0]), f"{values[0]}")
    return [(said, value) for value, said in found.items()]


def padded(values: Array, run: int, stride: int, fill: int) -> Array:
    """Rows of `run` elements at a distance of `stride`, the buffer read from its start as if there were none."""
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
    """Dense rows read at a distance of `stride`; what lies beyond the end is `fill`."""
    rows = values.size // run
    places = (np.arange(rows)[:, None] * stride + np.arange(run)).reshape(-1)
    flat = values.reshape(-1)
    beyond = places >= flat.size
    read = flat[np.where(beyond, 0, places)]
    read[beyond] = fill
    return read.reshape(values.shape)


def _raw(case: Case, raw: bytes) -> Array:
    """The board's own padding with the computed elements."""
    spec = case.spec
    whole = np.frombuffer(raw, spec.numpy_dtype).reshape(spec.aligned_shape).copy()
    whole[tuple(slice(0, n) for n in spec.shape)] = case.made
    return whole.reshape(-1)[: spec.elements].reshape(spec.shape)
