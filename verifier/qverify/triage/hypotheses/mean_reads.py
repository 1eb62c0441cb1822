"""A mean reads other elements than its own: consecutive ones of memory, those of another axis, or runs that start at a
wrong stride."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "mean-reads"
LATE = -1
OPS = ("global_average_pool", "reduce_mean")


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op in ("global_average_pool", "reduce_mean") and linear(case) is not None:
        yield from fitting(case, _ways(case))


def _ways(case: Case) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    shape = case.graph.spec(case.last.inputs[0] or "").shape
    mask = words_of(case).get("axes_mask")
    own_axes = tuple(i for i in range(len(shape)) if (i >= 2 if mask is None else mask >> i & 1))
    size, outputs = int(np.prod(shape)), case.recorded.size
    count = size // outputs
    runs, columns = np.arange(size).reshape(outputs, count), np.arange(size).reshape(count, outputs).T
    yield "every mean is of consecutive elements of memory instead of its axes", partial(_of, places=runs)
    yield (
        "every mean is of elements one output apart in memory, as if the axes came first",
        partial(_of, places=columns),
    )
    for length in range(1, len(shape)):
        for axes in combinations(range(len(shape)), length):
            if axes != own_axes and int(np.prod([shape[i] for i in axes])) == count:
                yield (
                    f"the mean is over axes {axes} instead of {own_axes}",
                    partial(_of, places=_over(shape, axes, outputs)),
                )
    for stride in dict.fromkeys((count - 1, count + 1, *(-(-count // m) * m for m in (2, 4, 8, 16, 32)), shape[-1])):
        if 0 < stride != count:
            places = np.minimum(np.arange(outputs)[:, None] * stride + np.arange(count), size - 1)
            text = (
                f"the elements of every mean start {stride} instead of {count} elements after those of the one before"
            )
            yield text, partial(_of, places=places)


def _over(shape: tuple[int, ...], axes: tuple[int, ...], outputs: int) -> Array:
    kept = [i for i in range(len(shape)) if i not in axes]
    return np.arange(int(np.prod(shape))).reshape(shape).transpose(*kept, *axes).reshape(outputs, -1)


def _of(e: SummedElements, places: Array) -> Array:
    name = e.case.last.inputs[0] or ""
    x = e.case.inputs[name].reshape(-1).astype(np.int64) - e.case.graph.spec(name).zero_point[0]
    return e.requantized(x[places[e.places]].sum(1))
