"""A copy (gather, slice, split, pad, transpose, depth_to_space, resize_nearest) moves its rows in whole words: rounded
up, so that a row runs into its neighbour, or rounded down, so that the end of a row is not copied."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.inner_node import finished
from qverify.triage.altered_kernels.separable_copies import OUTSIDE, copy_of, mover, needed_copy, source_of
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "copy-words"
WORDS = (4, 8, 16, 2, 32, 64)
ENDS = {
    "the copy beyond the end of a tensor is left out": "exact",
    "beyond the end of the input its last elements are repeated": "clamped",
}


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = mover(case)
    if inner is None or inner.last.op == "reshape" or case.recorded.size < 2:
        return
    item = inner.spec.numpy_dtype.itemsize
    for run in _runs(case):
        for unit, words in (("bytes", WORDS), ("elements", (2, 4, 8, 16, 32))):
            for word in words:
                size = word // item if unit == "bytes" else word
                if size < 1 or (unit == "bytes" and (word % item or item == word or (item == 1 and word < 2))):
                    continue
                if run % size and not (unit == "elements" and item == 1):
                    yield from _yield_word_faults(case, inner.last.op, run, size, f"{word} {unit}")


def _yield_word_faults(case: Case, op: str, run: int, size: int, word: str) -> Iterator[FaultVariant]:
    longer = -(-run // size) * size
    for order, backward in (("last to the first", True), ("first to the last", False)):
        for phrase, end in ENDS.items():
            text = (
                f"{op}: rows of {run} elements are copied in whole words of {word}, from the {order}: a row that is no multiple of it runs {longer - run} elements into the next row of the output"
                f" ({phrase})"
            )
            make = partial(_spilled, run=run, length=longer, backward=backward, end=end)
            yield from check_where_it_differs(case, text, make, 2.0 + (not backward) + (end != "exact"))
    tail = run % size
    if run > size:
        for phrase, way in TAILS.items():
            text = f"{op}: of rows of {run} elements only whole words of {word} are copied; the last {tail} {phrase}"
            yield from check_where_it_differs(case, text, partial(_short, run=run, tail=tail, size=size, way=way), 3.0)


TAILS = {
    "are the elements one word before them": "back",
    "keep those of the row before": "row before",
    "are 0": "zero",
    "repeat the last one copied": "last",
    "are a word that begins at the end of the row, less what it lacks": "over",
}


def _runs(case: Case) -> list[int]:
    """Returns the lengths of runs of the output that are consecutive in the input."""
    copy, lengths, run = needed_copy(case), [], 1
    for axis in range(len(copy.shape) - 1, -1, -1):
        step = np.diff(copy.places[axis]) * copy.strides[axis]
        if (step != run).any() or (copy.places[axis] < OUTSIDE // 2).any():
            break
        run *= copy.shape[axis]
        if 1 < run < case.recorded.size:
            lengths.append(run)
    return lengths


def _spilled(case: Case, run: int, length: int, backward: bool, end: str) -> Array:
    """Returns the output whose rows are copied `length` elements at a time."""
    copy = copy_of(case)
    assert copy is not None
    flat, starts = source_of(case, copy), copy.addresses().reshape(-1, run)[:, 0]
    count = starts.size * run
    output = np.zeros(count, np.int64)
    for row in range(len(starts))[:: -1 if backward else 1]:
        first, to = int(starts[row]), row * run
        long = length if end == "clamped" or (first + length <= flat.size and to + length <= count) else run
        places = np.minimum(first + np.arange(min(long, count - to)), flat.size - 1)
        output[to : to + len(places)] = places
    return finished(case, flat[output]).reshape(case.spec.shape)


def _short(case: Case, run: int, tail: int, size: int, way: str) -> Array:
    copy = needed_copy(case)
    flat, at = source_of(case, copy), copy.addresses().reshape(-1, run).copy()
    if way == "back":
        at[:, -tail:] = at[:, -tail:] - size
    elif way == "row before":
        at[1:, -tail:] = at[:1, -tail:] * 0 + at[:-1, -tail:]
    elif way == "last":
        at[:, -tail:] = at[:, -tail - 1 : -tail]
    elif way == "over":
        at[:, -tail:] = at[:, -tail:] - tail
    values = flat[np.clip(at, 0, flat.size - 1)]
    if way == "zero":
        values[:, -tail:] = 0
    return finished(case, values).reshape(case.spec.shape)
