"""A split's outputs are other parts of its input: in another order, all from the start, or of equal size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.separable_copies import SeparableCopy, copy_variant, mover, needed_copy, split_start

NAME = "split-order"


def variants(case: Case) -> Iterator[FaultVariant]:
    of = mover(case, "split")
    if of is None:
        return
    copy = needed_copy(case)
    axis = of.last.words[0]
    sizes = [of.graph.spec(n).shape[axis] for n in of.last.outputs]
    at, size, own = list(of.last.outputs).index(of.output), copy.sizes[axis], split_start(of)
    starts = {
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
        "each output starts one slice too far": own + 1,
        "each output starts one slice too early": own - 1,
        "each output takes the slices after its own": own + sizes[at],
        "each output takes the slices before its own": own - sizes[at],
    }
    for rare, (said, start) in enumerate(starts.items()):
        cost = 1.0 + 0.2 * rare
        yield from copy_variant(case, f"split: {said}", partial(_start, axis=axis, start=start), cost)
    for other in range(len(copy.shape)):
        if other != axis and copy.sizes[other] > 1:
            said = f"split: the offset of an output is counted in {copy.names[other]}s instead of {copy.names[axis]}s"
            yield from copy_variant(case, said, partial(_along, axis=axis, other=other), 3.0)
    ways = {of.spec.numpy_dtype.itemsize: "bytes, not in elements"} | {1: "elements, not in whole slices"}
    for stride, said in ways.items():
        text = f"split: the offset of an output is counted in {said}"
        yield from copy_variant(case, text, partial(_offset, axis=axis, by=own * stride), 3.0)
    packed = "split: the outputs are cut from consecutive elements of memory, whatever the axis"
    yield from copy_variant(case, packed, partial(_packed, axis=axis), 2.0)


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
