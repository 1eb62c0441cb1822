"""The bias is left out, added twice, used with the other sign, or taken from a neighbouring channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "bias"
OPS = ("conv", "conv_transpose", "fully_connected")
WAYS: dict[str, Callable[[Array], Array]] = {
    "left out": np.zeros_like,
    "added twice": lambda b: b * 2,
    "subtracted": lambda b: -b,
    "of the next channel": lambda b: np.roll(b, -1),
    "of the previous channel": lambda b: np.roll(b, 1),
    "of the first channel for all": lambda b: np.full_like(b, b.flat[0]),
    "in reverse order": lambda b: b[::-1],
}
INTEGER_WAYS: dict[str, Callable[[Array], Array]] = {
    "cut to 16 bits": lambda b: b.astype(np.int16).astype(b.dtype),
    "saturated to 16 bits": lambda b: np.clip(b, -(2**15), 2**15 - 1),
    "cut to 8 bits": lambda b: b.astype(np.int8).astype(b.dtype),
    "halved": lambda b: b >> 1,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "constant"):
        if place.label == "the bias":
            whole = case.graph.constants[place.name].dtype.kind == "i"
            for text, way in (WAYS | INTEGER_WAYS if whole else WAYS).items():
                yield FaultVariant(f"bias {text}", output_from(place, way))
