"""Channels are in another order: reversed, rotated, exchanged in pairs, or two of them exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from math import comb

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.triage.altered_kernels.memory_sources import MemorySource, memory_sources, output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "channel-order"
ORDERS: dict[str, Callable[[Array], Array]] = {
    "in reverse order": lambda i: i[::-1],
    "one too far": lambda i: np.roll(i, 1),
    "one too early": lambda i: np.roll(i, -1),
    "exchanged in pairs": lambda i: _blocks(i, 2),
    "reversed in fours": lambda i: _blocks(i, 4),
    "reversed in eights": lambda i: _blocks(i, 8),
}
FEW = 8  # channels of an input of which every two are tried


def variants(case: Case) -> Iterator[FaultVariant]:
    for place, axis in axes(case):
        count = place.spec.shape[axis]
        which = (
            f"channels of {place.label}"
            if place.kind != "constant"
            else f"{('output', 'input')[axis]} channels of {place.label}"
        )
        for text, order in ORDERS.items():
            if (order(np.arange(count)) != np.arange(count)).any():
                yield FaultVariant(f"{which} {text}", output_from(place, partial(ordered, order=order, axis=axis)))
        pairs = (
            _differing(case, axis) if place.kind == "output" else combinations(range(count), 2) if count <= FEW else ()
        )
        for pair in pairs:
            swap = partial(_exchanged, pair=pair)
            text = f"{which}: {pair[0]} and {pair[1]} are exchanged"
            yield FaultVariant(
                text,
                output_from(place, partial(ordered, order=swap, axis=axis)),
                log2_of(comb(count, 2)) if place.kind == "output" else 0,
            )


def axes(case: Case) -> Iterator[tuple[MemorySource, int]]:
    """Yields every tensor with channels and their axis: 1 for activations, 0 and 1 for weights."""
    for place in memory_sources(case):
        of_weights = place.label in ("the weights", "the second input") and place.kind == "constant"
        if place.kind != "constant" and len(place.spec.shape) < 2:
            continue
        for axis in (0, 1) if of_weights else (1,) if place.kind != "constant" else ():
            yield place, axis


def ordered(values: Array, order: Callable[[Array], Array], axis: int) -> Array:
    """Returns values with the channels along axis reordered."""
    return values.take(order(np.arange(values.shape[axis])), axis)


def _blocks(places: Array, size: int) -> Array:
    """Returns the indices reversed within every whole block."""
    whole = len(places) // size * size
    return np.concatenate([places[:whole].reshape(-1, size)[:, ::-1].reshape(-1), places[whole:]])


def _differing(case: Case, axis: int) -> Iterator[tuple[int, int]]:
    """Yields the two channels that have all the differences, if there are exactly two."""
    touched = np.unique(np.unravel_index(case.differing, case.spec.shape)[axis])
    if len(touched) == 2:
        yield int(touched[0]), int(touched[1])


def _exchanged(places: Array, pair: tuple[int, int]) -> Array:
    changed = places.copy()
    changed[list(pair)] = places[list(pair[::-1])]
    return changed
