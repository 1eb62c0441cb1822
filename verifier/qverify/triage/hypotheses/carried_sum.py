"""The accumulator is not cleared between outputs: it starts from the sum of the output before, or goes on adding along
an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, bias_of, fitting
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "carried-sum"
LATE = -1
OPS = LINEAR_OPS
LANES = (2, 4, 8, 16, 32, 64)


def variants(case: Case) -> Iterator[FaultVariant]:
    if linear(case) is not None and case.last.op != "mul":
        yield from fitting(case, _ways(case))


def _ways(case: Case) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    names = {4: ("batch item", "channel", "row", "column"), 3: ("batch item", "row or channel", "column")}
    for axis, size in enumerate(case.spec.shape):
        if size > 1:
            name = (
                names.get(len(case.spec.shape), ("row", "column"))[min(axis, 3)]
                if len(case.spec.shape) < 5
                else f"axis {axis}"
            )
            yield (
                f"the accumulator is not cleared from {name} to {name}: it goes on from the first one's sum",
                partial(_carried, axis=axis, block=size),
            )
            for n in LANES:
                if n < size:
                    text = f"the accumulator is cleared only for every {n}th {name}: it goes on adding between"
                    yield text, partial(_carried, axis=axis, block=n)
            yield f"the sum of the {name} before is added, too", partial(_before, axis=axis)
    if len(case.spec.shape) > 2:
        text = "the accumulators of a row are not cleared: they go on from the row before, over all channels and batch items"
        yield text, _over_rows
    yield "the accumulator is never cleared", partial(_carried, axis=None, block=0)
    yield "the sum of the output before in memory is added, too", partial(_before, axis=None)


def _products(e: SummedElements) -> Array:
    bias = bias_of(e.case)
    return e.sums.acc - (e.sums.along(bias) if len(bias) > 1 else bias)


def _carried(e: SummedElements, axis: int | None, block: int) -> Array:
    sums = _products(e)
    if axis is None:
        return e.requantized(np.cumsum(sums.reshape(-1))[e.places] + e.bias)
    total = np.cumsum(sums, axis)
    start = np.arange(sums.shape[axis]) // block * block - 1
    earlier = np.where(
        (start < 0).reshape([-1 if i == axis else 1 for i in range(sums.ndim)]),
        0,
        total.take(np.maximum(start, 0), axis),
    )
    return e.requantized((total - earlier).reshape(-1)[e.places] + e.bias)


def _over_rows(e: SummedElements) -> Array:
    sums = _products(e)
    return e.requantized(np.cumsum(sums.reshape(-1, sums.shape[-1]), 0).reshape(-1)[e.places] + e.bias)


def _before(e: SummedElements, axis: int | None) -> Array:
    sums = _products(e)
    shape = sums.shape
    flat = sums.reshape(1, -1) if axis is None else np.moveaxis(sums, axis, -1)
    earlier = np.concatenate([np.zeros_like(flat[..., :1]), flat[..., :-1]], -1)
    earlier = earlier.reshape(shape) if axis is None else np.moveaxis(earlier, -1, axis)
    return e.requantized(e.acc + earlier.reshape(-1)[e.places])
