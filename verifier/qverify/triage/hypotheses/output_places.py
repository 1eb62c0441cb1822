"""The output's rows, columns, channels or batch items are computed correctly, but written or read at wrong places: one
is repeated for several, blocks are repeated or exchanged, or all are one place too far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.separable_copies import axis_names, plural_of_axis
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.copy_places import BLOCKS, ORDERS

NAME = "output-places"
SAMPLES = 64
WHOLE: dict[str, Callable[[Array, int], Array]] = {
    "repeat the first one": lambda i, n: 0 * i,
    "repeat the last one": lambda i, n: 0 * i + n - 1,
    "come in reverse order": lambda i, n: n - 1 - i,
    "are those one before, the first twice": lambda i, n: np.maximum(i - 1, 0),
    "are those one after, the last twice": lambda i, n: np.minimum(i + 1, n - 1),
    "are those one before, wrapping around": lambda i, n: (i - 1) % n,
    "are those one after, wrapping around": lambda i, n: (i + 1) % n,
    "are those of the first half, twice": lambda i, n: i % max(n // 2, 1),
    "are those of the other half": lambda i, n: (i + n // 2) % n,
    "are the even ones, then the odd ones": lambda i, n: np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)]),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    shape = case.recorded.shape
    names = axis_names(len(shape))
    chosen = case.differing[np.linspace(0, len(case.differing) - 1, min(SAMPLES, len(case.differing))).astype(int)]
    recorded, healthy = element_bits(case.recorded)[chosen], element_bits(case.healthy).reshape(shape)
    for axis, size in enumerate(shape):
        for phrase, order in _orders(size) if size > 1 else ():
            where = list(np.unravel_index(chosen, shape))
            where[axis] = order[where[axis]]
            if (healthy[tuple(where)] == recorded).all():
                text = f"the {plural_of_axis(names[axis])} of the output {phrase}"
                yield FaultVariant(text, partial(_taken, axis=axis, order=order), 6.0, copied=True)


def _orders(size: int) -> Iterator[tuple[str, Array]]:
    places = np.arange(size)
    for text, whole in WHOLE.items():
        yield text, whole(places, size)
    for m in BLOCKS:
        for text, order in ORDERS.items():
            if m < size:
                yield text.format(m), np.clip(order(places, m), 0, size - 1)


def _taken(case: Case, axis: int, order: Array) -> Array:
    return np.ascontiguousarray(case.healthy.take(order, axis))
