"""Scales are those of another channel or one for all, wrong by a power of two, or requantization is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.arithmetic.forms import MOST_SHIFT
from qverify.arithmetic.requantize import stated_scale
from qverify.triage.altered_kernels.memory_sources import MemorySource, memory_sources, output_from
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "scales"
READ_FROM_TENSORS = ("concat", "where", "quantize", "dequantize", "resize_linear")
LEFT = ("gemmlowp", "cmsis")  # modes in which positive shifts are to the left
WAYS: dict[str, Callable[[Array], Array]] = {
    "of the next channel": lambda s: np.roll(s, -1, -1),
    "of the previous channel": lambda s: np.roll(s, 1, -1),
    "in reverse order": lambda s: s[..., ::-1],
}


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "constant"):
        if place.label == "the scales":
            value = case.graph.constants[place.name]
            channels = value.shape[-1] if case.last.op != "add" else 1
            if channels > 1:
                yield from _per_channel(place, value, case.graph.rounding)
            for k in (-8, -4, -2, -1, 1, 2, 4, 8):
                text = f"scales 2^{k} times as large: the shift is {abs(k)} too {'small' if k > 0 else 'large'}"
                yield FaultVariant(
                    text, output_from(place, partial(_shifted, k=k, rounding=case.graph.rounding, op=case.last.op))
                )
    yield from _yield_spec_faults(case)


def _per_channel(place: MemorySource, value: Array, rounding: str) -> Iterator[FaultVariant]:
    for text, way in WAYS.items():
        yield FaultVariant(f"scales {text}", output_from(place, way))
    real = stated_scale(value, rounding, False)
    one = {"the first": 0, "the last": -1, "the largest": int(real.argmax()), "the smallest": int(real.argmin())}
    for text, channel in one.items():
        yield FaultVariant(
            f"scales taken per tensor: {text} channel's for all", output_from(place, partial(_one, channel=channel))
        )
    for text, mean in (("mean", np.mean), ("median", np.median)):
        if value.ndim == 1:
            yield FaultVariant(f"scales taken per tensor: their {text}", output_from(place, partial(_filled, by=mean)))
    if value.ndim == 2:
        shifts = ((1, "shifts"),) if len(value) == 2 else ((3, "shifts"),)
        for row, text in ((0, "multipliers"), *(shifts if value.dtype.kind == "i" else ())):
            for way_text, way in WAYS.items():
                yield FaultVariant(f"{text} {way_text}", output_from(place, partial(_change_row, row=row, way=way)))


def _one(value: Array, channel: int) -> Array:
    return np.broadcast_to(value[..., channel : channel + 1 or None], value.shape)


def _filled(value: Array, by: Callable[[Array], Array]) -> Array:
    return np.full_like(value, by(value))


def _change_row(value: Array, row: int, way: Callable[[Array], Array]) -> Array:
    changed = value.copy()
    changed[row] = way(value[row])
    return changed


def _shifted(value: Array, k: int, rounding: str, op: str) -> Array:
    """Returns rq with its real scale multiplied by 2^k."""
    changed = value.copy()
    if value.dtype.kind == "f":
        scales = changed[:2] if op == "add" else changed if value.ndim == 1 else changed[0]
        scales *= value.dtype.type(2.0**k)
        if op == "add" and value.dtype == np.float32:
            changed[2] *= value.dtype.type(2.0**k)
    elif value.shape[-1 if op == "add" else 0] == 5:  # the steps of a sum: M, pre, s1, s2, rules
        fields = changed[2] if op == "add" else changed
        shift = fields[3] - k
        fields[1] += np.maximum(-shift, 0)
        fields[3] = np.clip(shift, 0, MOST_SHIFT)
    elif op == "add":
        changed[2] -= k
    else:
        changed[1] += k if rounding in LEFT else -k
    return changed


def _yield_spec_faults(case: Case) -> Iterator[FaultVariant]:
    """Yields faults of ops that read scales from the tensors: an input is used with the scale of the output or of
    another input."""
    if case.last.op not in READ_FROM_TENSORS:
        return
    specs = [case.graph.spec(n) for n in case.unit.inputs]
    quantized = [s for s in [*specs, case.spec] if s.quantized]
    for name in case.unit.inputs:
        for other in quantized:
            spec = case.graph.spec(name)
            if spec.quantized and (spec.scale, spec.zero_point) != (other.scale, other.zero_point):
                if len(spec.scale) == len(other.scale) == 1:
                    text = f"{name} is taken as if it had the scale and zero point of {other.name}"
                    yield FaultVariant(f"scales: {text}", partial(_as_if, name=name, other=other.name))
                    yield FaultVariant(
                        f"scales: {name} with the scale of {other.name}",
                        partial(_as_if, name=name, other=other.name, zero=False),
                    )
    if len(case.unit.inputs) > 1 and len(quantized) == len(case.unit.inputs) + 1:
        yield FaultVariant("scales: no input is requantized", _copied)


def _as_if(case: Case, name: str, other: str, zero: bool = True) -> Array:
    own, of = case.graph.spec(name), case.graph.spec(other)
    return case.recompute(
        UnitChange(specs={name: replace(own, scale=of.scale, zero_point=of.zero_point if zero else own.zero_point)})
    )


def _copied(case: Case) -> Array:
    y = case.spec
    return case.recompute(
        UnitChange(
            specs={n: replace(case.graph.spec(n), scale=y.scale, zero_point=y.zero_point) for n in case.unit.inputs}
        )
    )
