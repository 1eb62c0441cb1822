"""A split's outputs are other parts of its input: in another order, all from the start, or of equal size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify import ops
from qverify.triage.altered_kernels.separable_copies import (
    SeparableCopy,
    copy_variant,
    mover,
    needed_copy,
    plural_of_axis,
    split_start,
)
from qverify.triage.case import Case, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "split-order"
OPS = ("split",)


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case, "split")
    if inner is None:
        return
    copy = needed_copy(case)
    axis = inner.last.words[0]
    sizes = [inner.graph.spec(n).shape[axis] for n in inner.last.outputs]
    at, own_start = list(inner.last.outputs).index(inner.output), split_start(inner)
    others = _others(case, inner)
    for rare, phrase in enumerate(_starts(sizes, 0)):
        start = _starts(sizes, at)[phrase]
        if any((_starts(sizes, k)[phrase] == sum(sizes[:k])) != right for k, right in others.items()):
            continue
        cost = 1.0 + 0.2 * rare
        yield from copy_variant(case, f"split: {phrase}", partial(_start, axis=axis, start=start), cost)
    for other in range(len(copy.shape)):
        if other != axis and copy.sizes[other] > 1:
            phrase = f"split: the offset of an output is counted in {plural_of_axis(copy.names[other])} instead of {plural_of_axis(copy.names[axis])}"
            yield from copy_variant(case, phrase, partial(_along, axis=axis, other=other), 3.0)
    ways = {inner.spec.numpy_dtype.itemsize: "bytes, not in elements"} | {1: "elements, not in whole slices"}
    for stride, phrase in ways.items():
        text = f"split: the offset of an output is counted in {phrase}"
        yield from copy_variant(case, text, partial(_offset, axis=axis, by=own_start * stride), 3.0)
    if own_start:
        yield from _aligned(case, inner, axis)
    packed = "split: the outputs are cut from consecutive elements of memory, whatever the axis"
    yield from copy_variant(case, packed, partial(_packed, axis=axis), 2.0)


def _starts(sizes: list[int], at: int) -> dict[str, int]:
    """Returns the wrong places on the axis at which an output begins, by text."""
    size, own_start = sum(sizes), sum(sizes[:at])
    return {
        "the outputs are taken from the end of the axis: the first output gets the last slices": sum(sizes[at + 1 :]),
        "every output starts at the beginning of the axis": 0,
        "outputs start at multiples of the first output's size": at * sizes[0],
        "outputs start at multiples of their own size": at * sizes[at],
        "outputs start at multiples of the last output's size": at * sizes[-1],
        "outputs start at multiples of the mean size": at * (size // len(sizes)),
        "an output starts at the size of the output before it, not at the sum of all before": sizes[at - 1]
        if at
        else 0,
        "every output takes the last slices of the axis": size - sizes[at],
        "every output after the first starts one slice too early: the offset advances by size - 1 at the end of an output before": own_start
        - (at > 0),
        "after each output the offset advances by one slice only": at,
        "after each output the offset advances by one slice too few": own_start - at,
        "after each output the offset advances by one slice too many": own_start + at,
        "every output after the first starts one slice too far": own_start + (at > 0),
        "each output starts one slice too far": own_start + 1,
        "each output starts one slice too early": own_start - 1,
        "outputs start at multiples of the next power of two of the first size": at
        * (1 << (sizes[0] - 1).bit_length()),
        "outputs start at the sum of the sizes behind them": sum(sizes[at:]),
        "every output after the first starts where the second one starts": sizes[0] if at else 0,
        "each output takes the slices after its own": own_start + sizes[at],
        "each output takes the slices before its own": own_start - sizes[at],
    }


def _aligned(case: Case, inner: Case, axis: int) -> Iterator[FaultVariant]:
    """Yields outputs that begin at an element of the input rounded to a multiple, in the whole tensor or in a row of
    the axis and what lies behind it."""
    copy, item = needed_copy(case), inner.spec.numpy_dtype.itemsize
    own_start = split_start(inner) * copy.strides[axis]
    starts = set[int]()
    for unit, size in (("element", 1), ("byte", item)):
        for m in (8, 4, 16, 2, 32, 64, 128):
            for way, start in (("down", own_start * size // m * m), ("up", -(-own_start * size // m) * m)):
                if start % size == 0 and start != own_start * size and start // size not in starts:
                    starts.add(start // size)
                    text = f"split: every output after the first starts at an offset in {unit}s rounded {way} to a multiple of {m}"
                    change = partial(_offset, axis=axis, by=start // size)
                    yield from copy_variant(case, text, change, 2.0 + (unit == "byte") + 0.5 * (way == "up"))


def _others(case: Case, inner: Case) -> dict[int, bool]:
    """Returns whether the board has the right elements of the node's other outputs, where these are known."""
    known = {}
    healthy = ops.simulate_node(inner.graph, inner.last, inner.inputs)
    for at, name in enumerate(inner.last.outputs):
        reader = next((n for n in case.graph.nodes if n.op == "quantize" and n.inputs[0] == name), None)
        shown = reader.outputs[0] if reader is not None and case.graph.spec(name).interior else name
        board = case.board(shown) if name != inner.output else None
        if board is None:
            continue
        value = (
            healthy[name] if shown == name or reader is None else ops.simulate_node(inner.graph, reader, healthy)[shown]
        )
        known[at] = value.shape == board.shape and bool((element_bits(value) == element_bits(board)).all())
    return known


def _start(copy: SeparableCopy, case: Case, axis: int, start: int) -> SeparableCopy:
    return copy.with_places({axis: start + np.arange(copy.shape[axis])})


def _along(copy: SeparableCopy, case: Case, axis: int, other: int) -> SeparableCopy:
    start = split_start(case)
    return copy.with_places({axis: np.arange(copy.shape[axis]), other: copy.places[other] + start})


def _offset(copy: SeparableCopy, case: Case, axis: int, by: int) -> SeparableCopy:
    """Returns the copy whose offset is `by` elements; it is put on the first axis."""
    places = {axis: np.arange(copy.shape[axis])}
    first = places.get(0, copy.places[0]) * copy.strides[0] + by
    return copy.with_places(places | {0: first}).with_strides({0: 1})


def _packed(copy: SeparableCopy, case: Case, axis: int) -> SeparableCopy:
    at = list(case.last.outputs).index(case.output)
    before = sum(case.graph.spec(n).elements for n in case.last.outputs[:at])
    count = case.recorded.size
    return SeparableCopy(("element",), (count,), (count,), (1,), (before + np.arange(count),), copy.source)
