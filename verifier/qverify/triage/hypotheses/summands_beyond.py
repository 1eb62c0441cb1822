"""A sum goes on beyond its last element, to a whole number of lanes: over the next row in memory, zeros, or elements
again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "summands-beyond"
OPS = ("fully_connected",)
LATE = -1
LANES = (2, 4, 8, 16, 32, 64)
FIRST = ("the next elements in memory", "raw 0", "the last element again", "the row's first elements again", "raw 1")
SECOND = ("the next row's weights", "raw 0", "the last weight again", "the row's first weights again", "raw 1")


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op == "fully_connected" and linear(case) is not None and sample(case) is not None:
        yield from fitting(case, _ways(case), in_parts=True)


def _ways(case: Case) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    depth = case.graph.spec(case.last.inputs[1] or "").shape[1]
    ends: dict[int, list[str]] = {depth + 1: ["one element too many"]}
    for m in LANES:
        if depth % m:
            ends.setdefault(-(-depth // m) * m, []).append(f"the depth rounded up to a multiple of {m}")
    for end, phrases in ends.items():
        for first in FIRST:
            for second in SECOND:
                text = f"the sum goes on beyond the row's {depth} elements ({' or '.join(phrases)}, {end}): there it multiplies {first} by {second}"
                yield text, partial(_beyond, more=end - depth, first=first, second=second)


def _beyond(e: SummedElements, more: int, first: str, second: str) -> Array:
    case = e.case
    w = case.graph.constants[case.last.inputs[1] or ""].astype(np.int64)
    x = case.inputs[case.last.inputs[0] or ""].astype(np.int64)
    row, output = np.unravel_index(e.places, case.spec.shape)
    zero_w = e.summands.zero_w.reshape(-1, 1)
    read_x = _read(x, row, more, FIRST.index(first), e.summands.zero_x) - e.summands.zero_x
    read_w = _read(w, output, more, SECOND.index(second), zero_w) - zero_w
    return e.requantized(e.acc + (read_x * read_w).sum(1))


def _read(values: Array, row: Array, more: int, way: int, zero: Any) -> Array:
    """Returns the elements that follow the rows, [S, more], with the zero point beyond the tensor. way: index of the
    fault in FIRST and SECOND."""
    depth, k = values.shape[1], np.arange(more)
    flat = values.reshape(-1)
    at = (row[:, None] + 1) * depth + k
    following = np.where(at < flat.size, flat[np.minimum(at, flat.size - 1)], zero)
    last = np.repeat(values[row][:, -1:], more, 1)
    again = values[row][:, k % depth]
    return np.asarray((following, np.zeros_like(last), last, again, np.ones_like(last))[way])
