"""The end of every row, beyond the last whole vector, is not written: memory keeps its earlier contents there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.plural import count
from qverify.triage.altered_kernels.memory_sources import recorded_at
from qverify.triage.case import Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "vector-tail"
LANES = (2, 4, 8, 16, 32, 64)


def variants(case: Case) -> Iterator[FaultVariant]:
    """Yields each end of rows that may be unwritten. An end with one value everywhere is covered by the family
    dropped-or-repeated."""
    for noun, where, axis in _axes(case.spec.shape):
        length, tried = case.spec.shape[axis], set()
        for lanes in LANES:
            left = length % lanes or lanes
            if left < length and left not in tried:
                tried.add(left)
                yield from _unwritten(case, noun, where, axis, left)


def _axes(shape: tuple[int, ...]) -> Iterator[tuple[str, str, int]]:
    """Yields (noun, text, axis) of the axes along which a vector can run: columns, or the channels of a tensor that is
    stored channels last."""
    if len(shape) > 2:
        yield "column", " of every row", len(shape) - 1
    if len(shape) > 1:
        yield "channel", " of every pixel" if len(shape) > 2 else "", 1


def _unwritten(case: Case, noun: str, where: str, axis: int, tail: int) -> Iterator[FaultVariant]:
    mask = np.zeros(case.spec.shape, bool)
    np.moveaxis(mask, axis, 0)[-tail:] = True
    free = mask.reshape(-1)
    if not free[case.differing].all() or len(np.unique(element_bits(case.recorded)[free])) == 1:
        return
    verb = "is" if tail == 1 else "are"
    unwritten = f"the last {count(tail, noun)}{where} {verb} not written"
    text = f"{unwritten}: {np.count_nonzero(free)} elements are left from earlier memory contents"
    yield FaultVariant(text, partial(recorded_at, free=free), free=free)
