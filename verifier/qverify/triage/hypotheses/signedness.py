"""Signed elements are read as unsigned ones, or unsigned elements as signed ones, or 128 is added by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify import ops
from qverify.triage.altered_kernels.memory_sources import MemorySource, correct_value, memory_sources, output_from
from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.one_row import Recomputed

NAME = "signedness"
OTHER = {"int8": "uint8", "uint8": "int8", "int16": "uint16", "uint16": "int16"}


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case):
        if place.spec.dtype not in OTHER:
            continue
        other = OTHER[place.spec.dtype]
        half = 1 << 8 * place.spec.numpy_dtype.itemsize - 1
        yield FaultVariant(
            f"signedness: the highest bit of {place.label} is inverted ({half} added)", output_from(place, _inverted)
        )
        if place.kind == "output":
            yield from _yield_output_faults(case, other)
            continue
        for phrase, zero in (
            ("", 0),
            (f", its zero point {half} further", half),
            (f", its zero point {half} less", -half),
        ):
            text = f"signedness: {place.label} is read as {other}{phrase}"
            yield FaultVariant(text, Recomputed(partial(_read, place=place, dtype=other, zero=zero)))


def _inverted(values: Array) -> Array:
    unsigned = f"u{values.dtype.itemsize}"
    half = np.array(1 << 8 * values.dtype.itemsize - 1, unsigned)
    return (values.view(unsigned) ^ half).view(values.dtype)


def _read(case: Case, place: MemorySource, dtype: str, zero: int) -> UnitChange:
    values = np.ascontiguousarray(correct_value(case, place)).view(dtype)
    spec = replace(place.spec, dtype=dtype, zero_point=tuple(z + zero for z in place.spec.zero_point))
    changed = {place.name: values}
    if place.kind == "input":
        return UnitChange(inputs=changed, specs={place.name: spec})
    return UnitChange(constants=changed, specs={place.name: spec})


def _yield_output_faults(case: Case, other: str) -> Iterator[FaultVariant]:
    if not case.spec.quantized:
        return
    low, high = limits(replace(case.spec, dtype=other))
    for text, way in (("clipped", None), ("wrapped, not clipped", _wide)):
        if way is None:
            yield FaultVariant(
                f"signedness: the output is {text} as {other}", partial(_written, dtype=other, low=low, high=high)
            )
        else:
            yield FaultVariant(f"signedness: the output is {text}", way)


def _changed(case: Case, dtype: str, low: int, high: int) -> Array:
    words = ops.words(case.last)
    change = case.change_words(act_min=low, act_max=high) if "act_min" in words else UnitChange()
    return case.recompute(replace(change, specs={case.output: replace(case.spec, dtype=dtype)}))


def _written(case: Case, dtype: str, low: int, high: int) -> Array:
    return _changed(case, dtype, low, high).view(case.spec.numpy_dtype)


def _wide(case: Case) -> Array:
    """Returns the output computed in 32 bits, of which only the lowest bits are kept."""
    return _changed(case, "int64", -(2**31), 2**31 - 1).astype(case.spec.numpy_dtype)
