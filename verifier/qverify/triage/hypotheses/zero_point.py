"""A zero point is wrong: that of an input, of the weights, or of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.memory_sources import MemorySource, memory_sources
from qverify.triage.altered_kernels.solve_multiplier import find_multiples
from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import accumulator, linear
from qverify.triage.one_row import Recomputed

NAME = "zero-point"
MAX_WORK = 40_000_000  # elements that are computed for all candidates


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case):
        if not place.spec.quantized or place.spec.numpy_dtype.kind not in "iu" or place.spec.dtype == "int32":
            continue
        if place.kind == "output":
            yield from _yield_output_faults(case, place)
        elif case.last.op != "mul" and place.name in case.last.inputs and (sums := linear(case)) is not None:
            step = accumulator(case, _shifted(place.spec, 1)) - sums.acc
            reach = 1 << 8 * place.spec.numpy_dtype.itemsize
            usual = {-place.spec.zero_point[0], reach // 2, -reach // 2} - {0}
            for by in sorted(usual | {*find_multiples(case, sums, step, np.arange(-reach, reach + 1))}):
                yield _variant(place, by)
        else:
            for by in _candidates(case, place):
                yield _variant(place, by, _compute_addition if case.last.op == "add" else None)


def _variant(place: MemorySource, by: int, make: Callable[..., Array] | None = None) -> FaultVariant:
    """Returns the variant with a zero point changed by `by`. make: computes the output, if not simply by running the
    unit with the tensor's changed zero point."""
    zero_point = place.spec.zero_point
    text = (
        f"{zero_point[0] + by} instead of {zero_point[0]}"
        if len({*zero_point}) == 1
        else f"all {abs(by)} too {'high' if by > 0 else 'low'}"
    )
    # Usual values are not chosen by the recorded elements.
    usual = zero_point[0] + by == 0 or abs(by) == 1 << 8 * place.spec.numpy_dtype.itemsize - 1
    bits = 0.0 if usual else 8.0 * place.spec.numpy_dtype.itemsize
    again = Recomputed(lambda _: _shifted(place.spec, by)) if make is None else partial(make, place=place, by=by)
    return FaultVariant(f"zero point of {place.label}: {text}", again, bits)


def _shifted(spec: TensorSpec, by: int) -> UnitChange:
    return UnitChange(specs={spec.name: replace(spec, zero_point=tuple(z + by for z in spec.zero_point))})


def _yield_output_faults(case: Case, place: MemorySource) -> Iterator[FaultVariant]:
    """Yields the zero point changed by the commonest difference of the elements that are not saturated, or of all if
    there are none."""
    low, high = limits(case.spec)
    flat = case.recorded.reshape(-1)[case.differing].astype(np.int64)
    away = flat - case.healthy.reshape(-1)[case.differing]
    inside = away[(flat > low) & (flat < high)]
    values, counts = np.unique(inside if inside.size else away, return_counts=True)
    by = int(values[counts.argmax()])
    if not by:
        return
    for make in (_compute_addition if case.last.op == "add" else None, _moved):
        yield _variant(place, by, make)
    text = f"zero point: {abs(by)} {'added to' if by > 0 else 'taken from'} every element of the output, not saturated"
    yield FaultVariant(text, partial(_wrapped, by=by), 8.0 * case.recorded.itemsize)


def _wrapped(case: Case, by: int) -> Array:
    return (case.healthy.astype(np.int64) + by).astype(case.spec.numpy_dtype)


def _moved(case: Case, place: MemorySource, by: int) -> Array:
    """Returns the output with `by` added after the clamp."""
    low, high = limits(case.spec)
    return np.clip(case.healthy.astype(np.int64) + by, low, high).astype(case.spec.numpy_dtype)


def _candidates(case: Case, place: MemorySource) -> list[int]:
    """Returns distances from the tensor's zero point to other values: to all of them if the unit is small, otherwise to
    the usual ones."""
    low, high = limits(place.spec)
    zero_point = place.spec.zero_point[0]
    every = range(low, high + 1) if case.recorded.size * (high - low + 1) <= MAX_WORK else ()
    if place.spec.numpy_dtype.itemsize > 1:
        every = ()
    usual = {
        0,
        low,
        high,
        128,
        -128,
        zero_point - 1,
        zero_point + 1,
        -zero_point,
        case.spec.zero_point[0] if case.spec.quantized else 0,
    }
    return [z - zero_point for z in [*every, *sorted(usual - {*every})] if z != zero_point]


def _compute_addition(case: Case, place: MemorySource, by: int) -> Array:
    """Returns the addition with another zero point; in ref-exact the third constant combines all three zero points."""
    node, rq = case.last, case.graph.constants[case.last.inputs[2] or ""]
    if rq.dtype != np.float32:
        return case.recompute(_shifted(place.spec, by))
    offset = np.float32(by)
    if place.kind != "output":
        first = (place.name == node.inputs[0]) != bool(node.words[0])
        offset = -rq[0 if first else 1] * np.float32(by)
    changed = rq.copy()
    changed[2] += offset
    return case.recompute(UnitChange(constants={node.inputs[2] or "": changed}))
