"""Elements are interleaved or deinterleaved as by a load or store of structures, in which every 2nd, 3rd or 4th element
belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.memory_sources import (
    MemorySource,
    is_permutation,
    memory_sources,
    output_from,
    reordered_runs,
)
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "interleaving"
LATE = 1
WAYS = (2, 3, 4, 8, 16, 32)
WAYS_READ = (2, 4)  # for tensors that the unit reads, where each way costs a run of the unit


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case):
        if place.label in ("the bias", "the scales", "the table"):
            continue
        if place.kind == "output" and not is_permutation(case):
            continue
        for phrase, run in _runs(place):
            for ways in WAYS if place.kind == "output" else WAYS_READ:
                if run > ways:
                    dealt = np.concatenate([np.arange(first, run, ways) for first in range(ways)])
                    for text, order in (("dealt apart", dealt), ("interleaved", np.argsort(dealt))):
                        yield FaultVariant(
                            f"elements of {phrase} of {place.label} are {text} {ways} ways",
                            output_from(place, partial(reordered_runs, order=order)),
                        )


def _runs(place: MemorySource) -> Iterator[tuple[str, int]]:
    """Yields (text, number of elements of a run) for the whole tensor, every plane and every row. Channels are covered
    by the family group-order."""
    shape, yielded = place.spec.shape, set()
    for text, run in (("the whole", prod(shape)), ("planes", prod(shape[2:])), ("rows", prod(shape[-1:]))):
        if run not in yielded:
            yielded.add(run)
            yield text, run
