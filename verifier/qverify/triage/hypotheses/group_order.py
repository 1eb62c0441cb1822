"""Groups of channels are exchanged, or channels are shuffled between groups, or not shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.memory_sources import output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.channel_order import axes, ordered

NAME = "group-order"
LATE = 1
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)


def variants(case: Case) -> Iterator[FaultVariant]:
    own_groups = {case.last.words[10]} if case.last.op in ("conv", "conv_transpose") else set()
    for place, axis in axes(case):
        count = place.spec.shape[axis]
        for groups in sorted(
            {n for n in {*SIZES, *(count // s for s in SIZES), *own_groups} if 1 < n < count and count % n == 0}
        ):
            for phrase, order in (
                ("shuffled: the first of every group, then the second ...", _shuffled),
                ("in reverse order of groups", _reversed),
                ("one group too far", _further),
                ("one group too early", _earlier),
            ):
                text = f"channels of {place.label}{' (outputs)' if place.kind == 'constant' and not axis else ''}, {groups} groups: {phrase}"
                yield FaultVariant(
                    text, output_from(place, partial(ordered, order=partial(order, groups=groups), axis=axis))
                )


def _shuffled(places: Array, groups: int) -> Array:
    return places.reshape(groups, -1).T.reshape(-1)


def _reversed(places: Array, groups: int) -> Array:
    return places.reshape(groups, -1)[::-1].reshape(-1)


def _further(places: Array, groups: int) -> Array:
    return np.roll(places, len(places) // groups)


def _earlier(places: Array, groups: int) -> Array:
    return np.roll(places, -(len(places) // groups))
