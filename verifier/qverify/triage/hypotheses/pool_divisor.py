"""An average pool divides by a wrong number of elements, or rounds its mean by another rule or twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.rounding_rules import RULES, Rule
from qverify.triage.altered_kernels.summed_elements import PooledElements, SummedElements, as_pooled, fitting, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "pool-divisor"
LATE = -1
OPS = ("average_pool",)


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op == "average_pool":
        yield from fitting(case, _ways(case), in_parts=True)


def _ways(case: Case) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    words = words_of(case)
    height, width = words["kernel_h"], words["kernel_w"]
    counts = {
        f"the kernel's size {height * width}, also where padding is not counted": height * width,
        f"the kernel's width {width}": width,
        f"the kernel's height {height}": height,
        f"the square of the kernel's height, {height * height}": height * height,
        f"the square of the kernel's width, {width * width}": width * width,
        "1: the sum is not divided": 1,
        f"{height * width + 1}, one more than the kernel's size": height * width + 1,
        f"{height * width - 1}, one less than the kernel's size": height * width - 1,
        f"the power of two above the kernel's size, {1 << (height * width - 1).bit_length()}": 1
        << (height * width - 1).bit_length(),
        f"the power of two below the kernel's size, {1 << (height * width).bit_length() - 1}": 1
        << (height * width).bit_length() - 1,
    }
    for text, count in counts.items():
        if count > 0:
            yield f"the sum is divided by {text}", partial(_divided, count=count)
    for text, way in _COUNTED.items():
        yield f"the sum is divided by {text}", partial(_counted, way=way)
    for text, rule in RULES.items():
        yield (
            f"the mean of x - zero point is rounded {text} to an integer before it is scaled",
            partial(_whole, rule=rule),
        )
        yield (
            f"the mean of the raw integers is rounded {text} to an integer before it is scaled",
            partial(_raw_whole, rule=rule),
        )
        yield f"the scaled mean is rounded {text}", partial(_ruled, rule=rule, zero=False)
        yield f"the scaled mean plus zero point is rounded {text}", partial(_ruled, rule=rule, zero=True)


def _with_divisor(e: SummedElements, divisor: Any) -> Array:
    changed = PooledElements(e.case, e.places)
    changed.__dict__["divisor"] = np.broadcast_to(divisor, e.places.shape)
    return changed.added(e.summands.products)


def _divided(e: SummedElements, count: int) -> Array:
    return _with_divisor(e, count)


def _counted(e: SummedElements, way: Callable[[Array, Array], Array]) -> Array:
    """Returns the output with another divisor. way: computes it from the masks of kernel rows [S, kh] and kernel
    columns [S, kw] that lie inside the input."""
    read = np.broadcast_to(e.summands.read, (len(e.places), *e.summands.read.shape[1:]))[:, 0]
    rows, columns = np.asarray(read.any(2)), np.asarray(read.any(1))
    return _with_divisor(e, np.maximum(way(rows, columns), 1))


_COUNTED: dict[str, Callable[[Array, Array], Array]] = {
    "the number of elements inside the input, also where padding is counted": lambda r, c: r.sum(1) * c.sum(1),
    "the rows inside the input times the kernel's width": lambda r, c: r.sum(1) * c.shape[1],
    "the kernel's height times the columns inside the input": lambda r, c: r.shape[1] * c.sum(1),
    "the number of rows inside the input alone": lambda r, c: r.sum(1),
    "the number of columns inside the input alone": lambda r, c: c.sum(1),
    "one more than the number of elements inside the input": lambda r, c: r.sum(1) * c.sum(1) + 1,
}


def _ratio(e: SummedElements) -> float:
    return float(e.sums.real[0])


def _whole(e: SummedElements, rule: Rule) -> Array:
    return e.finished(np.rint(rule(e.acc / as_pooled(e).divisor) * _ratio(e)))


def _raw_whole(e: SummedElements, rule: Rule) -> Array:
    zero = e.summands.zero_x
    return e.finished(np.rint((rule(e.acc / as_pooled(e).divisor + zero) - zero) * _ratio(e)))


def _ruled(e: SummedElements, rule: Rule, zero: bool) -> Array:
    steps = e.acc * _ratio(e) / as_pooled(e).divisor
    if zero:
        return np.clip(rule(steps + e.sums.zero_point), e.sums.low, e.sums.high).astype(e.sums.dtype)
    return e.finished(rule(steps))
