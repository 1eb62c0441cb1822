"""NaN, infinity, negative zero or tiny numbers are replaced in the inputs or the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from, output_from_all
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "nan-scrub"


def _subnormal(x: Array) -> Array:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def _largest(x: Array) -> Array:
    return x.dtype.type(np.finfo(x.dtype).max)


WAYS: dict[str, Callable[[Array], Array]] = {
    "NaN becomes 0": lambda x: np.where(np.isnan(x), x.dtype.type(0), x),
    "NaN becomes the largest number": lambda x: np.where(np.isnan(x), _largest(x), x),
    "NaN becomes the smallest number": lambda x: np.where(np.isnan(x), -_largest(x), x),
    "NaN becomes infinity": lambda x: np.where(np.isnan(x), x.dtype.type(np.inf), x),
    "NaN and infinity become 0": lambda x: np.where(np.isfinite(x), x, x.dtype.type(0)),
    "infinity becomes the largest number": lambda x: np.clip(x, -_largest(x), _largest(x)),
    "NaN becomes 0, infinity the largest number": lambda x: np.nan_to_num(x),
    "infinity becomes NaN": lambda x: np.where(np.isinf(x), x.dtype.type(np.nan), x),
    "negative zero becomes zero": lambda x: x + x.dtype.type(0),
    "subnormal numbers become zero": _subnormal,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    real = [p for p in memory_sources(case, "output", "input") if p.spec.numpy_dtype.kind == "f"]
    for place in real:
        for text, way in WAYS.items():
            yield FaultVariant(f"NaN scrub: in {place.label} {text}", output_from(place, way))
    if sum(p.kind == "input" for p in real) == len(case.unit.inputs) > 1:
        for text, way in WAYS.items():
            yield FaultVariant(f"NaN scrub: in every input {text}", output_from_all(case, way))
