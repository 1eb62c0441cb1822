"""A bit is wrong: at one or at every element, in a weight, bias, scale or table entry, or a few bits at several
elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf

import numpy as np

from qverify.arithmetic.functions64 import log2_choices, log2_of
from qverify.triage.altered_kernels.memory_sources import MemorySource, memory_sources, output_from
from qverify.triage.altered_kernels.solve_multiplier import find_flipped_weights
from qverify.triage.case import Array, Case, UnitChange, element_bits
from qverify.triage.evidence import difference_bits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "bit-flip"
MAX_FLIPS = 16  # inverted bits in one tensor
MIN_ELEMENTS = 8  # of a tensor in which a single inverted bit is named
SPARSE = 32  # elements per differing element, from which on flips are more likely than arithmetic
MARGIN_BITS = 8.0  # that several flips must explain beyond their choice


def variants(case: Case) -> Iterator[FaultVariant]:
    yield from _yield_line_faults(case)
    yield from _yield_single_flips(case)
    yield from _yield_few_flips(case)
    yield from _yield_channel_faults(case)
    yield from _yield_table_faults(case)


def _width(case: Case) -> int:
    return 8 * case.recorded.itemsize


def _yield_line_faults(case: Case) -> Iterator[FaultVariant]:
    """Yields faults of a bus line that is stuck or inverted for every element."""
    ways: dict[str, Callable[[Array, int], Array]] = {"always 0": _cleared, "always 1": _set, "inverted": _inverted}
    moved = np.bitwise_or.reduce(
        element_bits(case.healthy)[case.differing] ^ element_bits(case.recorded)[case.differing]
    )
    for bit in range(
        _width(case) if case.last.op != "arg_max" else 0
    ):  # an index is the result of a search, not stored bits
        if int(moved) == 1 << bit:
            for text, way in ways.items():
                yield FaultVariant(f"bit {bit} of every element is {text}", partial(_on_output, way=way, bit=bit))
    for place in memory_sources(case, "input", "constant"):
        if place.spec.numpy_dtype.itemsize == 1 and place.label not in ("the scales", "the bias"):
            for bit in range(8):
                for text, way in ways.items():
                    yield FaultVariant(
                        f"bit {bit} of every element of {place.label} is {text}",
                        output_from(place, partial(_on_bits, way=way, bit=bit)),
                    )


def _on_bits(values: Array, way: Callable[[Array, int], Array], bit: int) -> Array:
    return way(element_bits(values), bit).view(values.dtype).reshape(values.shape)


def _on_output(case: Case, way: Callable[[Array, int], Array], bit: int) -> Array:
    return _on_bits(case.healthy, way, bit)


def _cleared(values: Array, bit: int) -> Array:
    return values & ~values.dtype.type(1 << bit)


def _set(values: Array, bit: int) -> Array:
    return values | values.dtype.type(1 << bit)


def _inverted(values: Array, bit: int) -> Array:
    return values ^ values.dtype.type(1 << bit)


def _yield_single_flips(case: Case) -> Iterator[FaultVariant]:
    if case.differing.size != 1 or case.recorded.size < MIN_ELEMENTS:
        return
    place = int(case.differing[0])
    moved = int(element_bits(case.healthy)[place] ^ element_bits(case.recorded)[place])
    if moved.bit_count() == 1:
        bit, where = moved.bit_length() - 1, tuple(int(i) for i in np.unravel_index(place, case.recorded.shape))
        cost = log2_of(case.recorded.size * _width(case))
        yield FaultVariant(
            f"bit {bit} of the element at {where} is inverted", partial(_at_element, place=place, bit=bit), cost
        )


def _at_element(case: Case, place: int, bit: int) -> Array:
    return _flipped(case.healthy, place, bit)


def _flipped(values: Array, place: int, bit: int) -> Array:
    changed = element_bits(values).copy()
    changed[place] = _inverted(changed[place : place + 1], bit)[0]
    return changed.view(values.dtype).reshape(values.shape)


def _yield_few_flips(case: Case) -> Iterator[FaultVariant]:
    """Yields inverted bits of several elements, unless the board changes every element of a value in the same way."""
    healthy, recorded = element_bits(case.healthy), element_bits(case.recorded)
    moved = healthy[case.differing] ^ recorded[case.differing]
    count = sum(int(m).bit_count() for m in moved) if moved.size <= MAX_FLIPS else 0
    if not 1 < moved.size <= count <= MAX_FLIPS or _depends_on_value_only(healthy, recorded):
        return
    cost = log2_choices(recorded.size * _width(case), count)
    if difference_bits(case) >= cost + MARGIN_BITS and cost <= _bits_as_steps(case):
        text = f"{count} bits are inverted, of {moved.size} elements"
        yield FaultVariant(text, partial(_exchanged, places=case.differing, moved=moved), cost)


def _bits_as_steps(case: Case) -> float:
    """Returns the bits needed to describe the same differences as steps up to the largest one. If so many elements
    differ that arithmetic is likely, MARGIN_BITS is subtracted: flips must then explain that much more."""
    if case.recorded.dtype.kind not in "iu":
        return inf
    healthy, recorded = (v.reshape(-1)[case.differing].astype(np.int64) for v in (case.healthy, case.recorded))
    n, k = case.recorded.size, case.differing.size
    steps = log2_choices(n, k) + k * log2_of(2 * int(np.abs(healthy - recorded).max()))
    return steps - (MARGIN_BITS if k * SPARSE > n else 0)


def _depends_on_value_only(healthy: Array, recorded: Array) -> bool:
    """Returns whether every recorded element depends only on the healthy value."""
    return len(np.unique(healthy)) == len(np.unique(np.stack([healthy, recorded]), axis=1).T)


def _exchanged(case: Case, places: Array, moved: Array) -> Array:
    changed = element_bits(case.healthy).copy()
    changed[places] ^= moved
    return changed.view(case.recorded.dtype).reshape(case.recorded.shape)


def _yield_channel_faults(case: Case) -> Iterator[FaultVariant]:
    """Yields inverted bits in a constant of the one channel that has all the differences."""
    sums = linear(case)
    if sums is None or case.last.op not in ("conv", "fully_connected"):
        return
    touched = np.unique(np.unravel_index(case.differing, case.recorded.shape)[1])
    if len(touched) != 1:
        return
    channel = int(touched[0])
    for place in memory_sources(case, "constant"):
        value = case.graph.constants[place.name]
        if place.label == "the weights":
            for index, bit in find_flipped_weights(case, sums, channel):
                yield _one(place, index, bit, f"weight {index} of output channel {channel}", log2_of(value.size * 8))
        elif place.label in ("the bias", "the scales") and value.shape[-1] > channel:
            for at_place in range(channel, value.size, value.shape[-1]):
                for bit in range(8 * value.itemsize):
                    text = f"{place.label[4:]} of channel {channel}"
                    yield _one(place, at_place, bit, text, log2_of(value.size * 8 * value.itemsize))


def _one(place: MemorySource, at_place: int, bit: int, text: str, cost: float) -> FaultVariant:
    if place.label == "the weights":
        text = f"weight {tuple(int(i) for i in np.unravel_index(at_place, place.spec.shape))}"
    return FaultVariant(
        f"bit {bit} of {text} is inverted", output_from(place, partial(_flipped, place=at_place, bit=bit)), cost
    )


def _yield_table_faults(case: Case) -> Iterator[FaultVariant]:
    if case.last.op != "lookup" or (case.last.inputs[0] or "") not in case.inputs:
        return
    x = case.inputs[case.last.inputs[0] or ""].reshape(-1)[case.differing].astype(np.int64)
    if len(np.unique(x)) != 1:
        return
    name = case.last.inputs[1] or ""
    entry = int(x[0]) - int(np.iinfo(case.inputs[case.last.inputs[0] or ""].dtype).min)
    for bit in range(_width(case)):
        text, cost = (
            f"bit {bit} of table entry {entry} is inverted",
            log2_of(case.graph.constants[name].size * _width(case)),
        )
        yield FaultVariant(text, partial(_entry, name=name, entry=entry, bit=bit), cost)


def _entry(case: Case, name: str, entry: int, bit: int) -> Array:
    return case.recompute(UnitChange(constants={name: _flipped(case.graph.constants[name], entry, bit)}))
