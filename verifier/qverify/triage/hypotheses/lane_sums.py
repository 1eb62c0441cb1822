"""A sum is computed in several narrow lanes, each of which saturates or is rounded after every product; the lanes are
added at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.blocks import rounded_sums, saturated_sums
from qverify.triage.altered_kernels.summed_elements import SUMMED_OPS, SummedElements, fitting_alike, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "lane-sums"
OPS = SUMMED_OPS
LATE = -1
LANES = (2, 4, 8, 16, 32)
WIDTHS = (8, 12, 14, 15, 16, 17, 18, 20, 24)
FLOATS = {"bfloat16": 8, "float16": 11, "float32": 24}
MOST_STEPS = 2500  # of one lane: more take too long
Narrow = Callable[[Array], Array]
Ways = Iterator[tuple[list[str], Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case)
    if few is not None and case.last.op not in ("mul", "average_pool"):
        yield from fitting_alike(case, _ways(case, few), in_parts=True, bits=1.5)


def _ways(case: Case, few: SummedElements) -> Ways:
    recorded = case.recorded.reshape(-1)[few.places]
    channels, rows, columns = few.summands.products.shape[1:]
    both = channels > 1 and rows * columns > 1
    orders = {"": False} | ({" in the order kernel row, kernel column, channel": True} if both else {})
    for order, inner in orders.items():
        for lanes in LANES:
            if lanes < channels * rows * columns <= lanes * MOST_STEPS:
                for phrases, params, after in _kinds():
                    sums = _scan(few, lanes, inner, bind_last(after, params[:, None, None]), len(params))
                    case.count_tried(len(params))
                    for text, p, acc in zip(phrases, params, sums, strict=True):
                        if (few.requantized(acc.astype(np.int64) + few.bias) == recorded).all():
                            sentence = f"the sum is kept in {lanes} lanes (lane k takes every {lanes}th product{order}), and each lane {text} after every product; then the lanes are added"
                            yield (
                                [sentence],
                                partial(_in_lanes, lanes=lanes, inner=inner, after=bind_last(after, int(p))),
                            )


def _kinds() -> Iterator[tuple[list[str], Array, Callable[[Array, Any], Array]]]:
    yield [f"saturates to {n} bits" for n in WIDTHS], np.array(WIDTHS), saturated_sums
    yield [f"is rounded to {name}" for name in FLOATS], np.array([*FLOATS.values()]), rounded_sums


def _scan(e: SummedElements, lanes: int, inner: bool, after: Narrow, count: int) -> Array:
    """Returns the sums [count, S]."""
    products = e.summands.products
    flat = (products.transpose(0, 2, 3, 1) if inner else products).reshape(len(products), -1)
    steps = np.pad(flat, ((0, 0), (0, -flat.shape[1] % lanes))).reshape(len(flat), -1, lanes)
    acc: Any = np.zeros((count, len(flat), lanes), np.int64)
    for step in range(steps.shape[1]):
        acc = after(acc + steps[:, step])
    return np.asarray(acc.sum(2))


def _in_lanes(e: SummedElements, lanes: int, inner: bool, after: Narrow) -> Array:
    return e.requantized(_scan(e, lanes, inner, after, 1)[0].astype(np.int64) + e.bias)
