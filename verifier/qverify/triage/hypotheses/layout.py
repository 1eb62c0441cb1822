"""A tensor is stored in another order of axes than that in which it is read: NHWC instead of NCHW, transposed weights,
rows instead of columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations

import numpy as np

from qverify.triage.altered_kernels.memory_sources import MemorySource, memory_sources, output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "layout"
KNOWN = {
    (0, 2, 3, 1): "NHWC",
    (0, 1, 3, 2): "NCWH",
    (0, 2, 1): "NWC",
    (1, 0): "transposed",
}


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case):
        shape = _before_flattening(case, place)
        if place.label in ("the bias", "the scales", "the table") or not 2 <= len(shape) <= 4:
            continue
        tried: set[tuple[int, ...]] = set()
        for order in permutations(range(len(shape))):
            kept = tuple(i for i in order if shape[i] > 1)
            if kept in tried or list(kept) == sorted(kept):
                continue
            tried.add(kept)
            name = KNOWN.get(order, f"axis order {order}")
            yield FaultVariant(
                f"layout: {place.label} is stored {name}",
                output_from(place, partial(_stored, order=order, shape=shape)),
            )
            yield FaultVariant(
                f"layout: {place.label} is read as if it were {name}",
                output_from(place, partial(_read, order=order, shape=shape)),
            )


def _stored(values: Array, order: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    return values.reshape(shape).transpose(order).reshape(values.shape)


def _read(values: Array, order: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    back = np.argsort(order)
    return values.reshape([shape[i] for i in order]).transpose(back).reshape(values.shape)


def _before_flattening(case: Case, place: MemorySource) -> tuple[int, ...]:
    """Returns the tensor's shape; for a flat tensor that a reshape computes, the shape before the reshape."""
    maker = case.graph.producers().get(place.name)
    if place.kind == "constant" or maker is None or maker.op != "reshape" or len(place.spec.shape) > 2:
        return place.spec.shape
    return case.graph.spec(maker.inputs[0] or "").shape
