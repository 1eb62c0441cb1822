"""Parts of the sum (kernel taps, channels, tiles of the depth) are requantized and rounded separately, and the rounded
values are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.blocks import Blocks, blocks_of
from qverify.triage.altered_kernels.rounding_rules import EVEN, RULES, Rule
from qverify.triage.altered_kernels.summed_elements import (
    SUMMED_OPS,
    SummedElements,
    clipped,
    fitting_alike,
    has_bias,
    requantization,
    sample,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "parts-requantized"
OPS = SUMMED_OPS
LATE = -1
CUTS = (EVEN, "half up", "half away from zero", "down (floor)", "toward zero (truncated)")
MOST_PARTS = 300
BIASES = {
    "by itself": "the bias is requantized by itself, too",
    "first": "the bias is in the first part",
    "last": "the bias is in the last part",
}
Ways = Iterator[tuple[list[str], Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    few, sums = sample(case), requantization(case)
    if few is None or sums is None or sums.rq.ndim != 1 or case.last.op in ("mul", "average_pool"):
        return
    yield from fitting_alike(case, _ways(case, few.summands.products.shape[1:]), in_parts=True)


def _ways(case: Case, shape: tuple[int, ...]) -> Ways:
    least = 1 if case.last.op == "conv_transpose" else 2
    for blocks in blocks_of(shape, case.last.op, least):
        if int(np.prod(shape)) > MOST_PARTS * blocks.size:
            continue
        for rule in CUTS:
            for bias in BIASES if has_bias(case) else ("first",):
                for added, way in _ADDED.items():
                    end = f"; {BIASES[bias]}" if has_bias(case) else ""
                    end += f"; each is rounded {rule}" if rule != EVEN else ""
                    texts = [f"every {b} is requantized and rounded by itself, and {added}{end}" for b in blocks.texts]
                    yield texts, partial(_added, blocks=blocks, rule=RULES[rule], bias=bias, add=way)


def _added(
    e: SummedElements, blocks: Blocks, rule: Rule, bias: str, add: Callable[[SummedElements, Array], Array]
) -> Array:
    sums = blocks.sums(e.summands.products)
    if bias == "by itself":
        sums = np.concatenate([e.bias[:, None], sums], 1)
    else:
        sums[:, 0 if bias == "first" else -1] += e.bias
    return add(e, rule(e.steps(sums, e.scale[:, None])))


def _total(e: SummedElements, steps: Array) -> Array:
    return e.finished(steps.sum(1))


def _each_clipped(e: SummedElements, steps: Array) -> Array:
    sums = e.sums
    return e.finished(clipped(steps, sums.low - sums.zero_point, sums.high - sums.zero_point).sum(1))


def _clipped_in_turn(e: SummedElements, steps: Array) -> Array:
    sums, total = e.sums, np.zeros(len(steps))
    for part in steps.T:
        total = clipped(total + part, sums.low - sums.zero_point, sums.high - sums.zero_point)
    return e.finished(total)


_ADDED: dict[str, Callable[[SummedElements, Array], Array]] = {
    "the rounded values are added": _total,
    "the rounded values, each clipped to the output's limits, are added": _each_clipped,
    "added to the output element in its own type, which is clipped each time": _clipped_in_turn,
}
