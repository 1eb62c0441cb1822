"""A tensor begins some elements too late or too early."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "element-offset"
LATE = 1
STEPS = (1, 2, 3, 4, 8, 16, 32, 64)


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case):
        shape = place.spec.shape
        steps = [1, 4] if place.kind == "constant" else sorted({*STEPS, shape[-1] if shape else 1, prod(shape[-2:])})
        fills = {0: "0", **{z: "the zero point" for z in place.spec.zero_point[:1]}}
        for by in [s * sign for s in steps if s < place.spec.elements for sign in (1, -1)]:
            way = f"{place.label} {abs(by)} element{'s' * (abs(by) > 1)} too {'late' if by > 0 else 'early'}"
            yield FaultVariant(f"offset: {way}, wrapped around", output_from(place, partial(_rolled, by=by)))
            yield FaultVariant(
                f"offset: {way}, the end repeated", output_from(place, partial(_moved, by=by, fill=None))
            )
            for fill, text in fills.items():
                yield FaultVariant(
                    f"offset: {way}, {text} there", output_from(place, partial(_moved, by=by, fill=fill))
                )


def _rolled(values: Array, by: int) -> Array:
    return np.roll(values.reshape(-1), by).reshape(values.shape)


def _moved(values: Array, by: int, fill: int | None) -> Array:
    flat = values.reshape(-1)
    moved = np.roll(flat, by)
    empty = slice(0, by) if by > 0 else slice(by, None)
    moved[empty] = (flat[0] if by > 0 else flat[-1]) if fill is None else fill
    return moved.reshape(values.shape)
