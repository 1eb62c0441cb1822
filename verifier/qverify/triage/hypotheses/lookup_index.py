"""A table is read at the wrong index: off by one, of the other sign, cut to fewer bits, or backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "lookup-index"
OPS = ("lookup", "softmax")
WAYS: dict[str, Callable[[Array], Array]] = {
    "one too high": lambda t: np.append(t[1:], t[-1]),
    "one too high, wrapping": lambda t: np.roll(t, -1),
    "one too low": lambda t: np.append(t[0], t[:-1]),
    "one too low, wrapping": lambda t: np.roll(t, 1),
    "without the offset of the type's sign": lambda t: np.roll(t, len(t) // 2),
    "backward": lambda t: t[::-1],
    "without its highest bit": lambda t: np.tile(t[: len(t) // 2], 2),
    "without its lowest bit": lambda t: np.repeat(t[::2], 2),
    "with its lowest bit set": lambda t: np.repeat(t[1::2], 2),
    "saturated to the lower half": lambda t: np.append(t[: len(t) // 2], np.full(len(t) // 2, t[len(t) // 2 - 1])),
    "saturated to the upper half": lambda t: np.append(np.full(len(t) // 2, t[len(t) // 2]), t[len(t) // 2 :]),
    "negative indices taken as 0": lambda t: np.append(np.full(len(t) // 2, t[len(t) // 2]), t[len(t) // 2 :]),
    "by its absolute value": lambda t: np.concatenate([t[-1:], t[: len(t) // 2 : -1], t[len(t) // 2 :]]),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "constant"):
        if place.label == "the table" and case.graph.constants[place.name].ndim == 1:
            for text, way in WAYS.items():
                yield FaultVariant(f"table index {text}", output_from(place, way))
