"""The running sum is narrow between blocks of summands (tiles of the depth, kernel taps, channels): it is kept in a
short float, loses its low bits, or saturates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.blocks import Blocks, blocks_of, rounded_sums, saturated_sums
from qverify.triage.altered_kernels.rounding_rules import RULES, Rule
from qverify.triage.altered_kernels.summed_elements import (
    SUMMED_OPS,
    PooledElements,
    SummedElements,
    fitting_alike,
    has_bias,
    sample,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "blocked-sums"
OPS = SUMMED_OPS
LATE = -1
WIDTHS = np.arange(8, 33)
FLOATS = {"bfloat16": 8, "float16": 11} | {
    f"{n} significant bits": n for n in (6, 7, 9, 10, 12, 13, 14, 15, 16, 18, 20)
}
LOST = np.arange(1, 13)
CUTS = ("down (floor)", "toward zero (truncated)", "half up", "to nearest (ties to even)")
# Ends of a sentence: after what the sum is narrowed.
ENDS = {
    "every": "every {}",
    "all but the last": "every {} but the last",
    "all whole": "every whole {}",
}
Narrow = Callable[[Array], Array]
After = Callable[[Array, Any], Array]  # the sums and the parameter that narrows them
Ways = Iterator[tuple[list[str], Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case)
    if few is None or case.last.op == "mul":
        return
    yield from fitting_alike(case, _ways(case, few), in_parts=True, bits=_likely)


def _likely(text: str) -> float:
    return 1.0 + 0.4 * ("the bias first" in text) + 0.3 * ("but the last" in text) + 0.3 * ("every whole" in text)


def _ways(case: Case, few: SummedElements) -> Ways:
    shape, op = few.summands.products.shape[1:], case.last.op
    pooled = isinstance(few, PooledElements)
    for blocks in blocks_of(shape, op, 1 if op in ("conv_transpose", "average_pool") else 2):
        for begin in (False, True) if has_bias(case) else (False,):
            for phrases, params, after in _kinds(blocks, pooled):
                yield from _yield_running_sums(few, blocks, begin, phrases, params, after)
        for phrases, params, after in _kinds(blocks, pooled, own=True):
            yield from _yield_own_sums(few, blocks, phrases, params, after)


def _kinds(blocks: Blocks, pooled: bool, own: bool = False) -> Iterator[tuple[list[str], Array, After]]:
    """Yields (texts, parameters, function that narrows sums by a parameter)."""
    counted = blocks.texts[0][0].isdigit()
    if not (own and counted):  # partial-sums has these
        yield [f"saturates to {n} bits" for n in WIDTHS], WIDTHS, saturated_sums
        if own:
            yield [f"wraps to {n} bits" for n in WIDTHS], WIDTHS, _wrapped
    if (blocks.size in (2, 4) and counted and not pooled) or (own and blocks.size == 1):
        return  # of short blocks registers saturate, and no float or store is likely
    names = [f"is rounded to {s}" + (f" ({n} significant bits)" if "bits" not in s else "") for s, n in FLOATS.items()]
    yield names, np.array(list(FLOATS.values())), rounded_sums
    for rule in CUTS:
        yield (
            [f"loses its lowest {k} bits, rounded {rule} to a multiple of {1 << k}" for k in LOST],
            LOST,
            partial(_lost, rule=RULES[rule]),
        )


def _yield_running_sums(
    few: SummedElements,
    blocks: Blocks,
    begin: bool,
    phrases: list[str],
    params: Array,
    after: After,
) -> Ways:
    recorded = few.case.recorded.reshape(-1)[few.places]
    sums_by_end = _scan(few, blocks, begin, bind_last(after, params.reshape(-1, 1)), len(params))
    few.case.count_tried(len(params) * len(sums_by_end))
    for end, acc in sums_by_end.items():
        for at in np.flatnonzero((_finished(few, acc, begin) == recorded).all(1)):
            start = ", the bias first" if begin else ""
            ends = (
                [end, "all whole"] if end == "every" and "all whole" not in sums_by_end and blocks.size > 1 else [end]
            )
            texts = [
                f"the running sum {phrases[at]} after {ENDS[n].format(b)}{start}" for n in ends for b in blocks.texts
            ]
            yield (
                texts,
                partial(_narrowed, blocks=blocks, begin=begin, end=end, after=bind_last(after, int(params[at]))),
            )


def _yield_own_sums(few: SummedElements, blocks: Blocks, phrases: list[str], params: Array, after: After) -> Ways:
    """Yields faults that narrow the sum of each block separately and add these sums without loss."""
    recorded = few.case.recorded.reshape(-1)[few.places]
    sums = after(blocks.sums(few.summands.products)[None], params.reshape(-1, 1, 1)).sum(2)
    few.case.count_tried(len(params))
    for at in np.flatnonzero((_finished(few, sums, False) == recorded).all(1)):
        texts = [f"the sum of every {b} by itself {phrases[at]} before these sums are added" for b in blocks.texts]
        yield texts, partial(_own_sums, blocks=blocks, after=bind_last(after, int(params[at])))


def _own_sums(e: SummedElements, blocks: Blocks, after: Narrow) -> Array:
    return _finished(e, after(blocks.sums(e.summands.products)).sum(1), False)


def _scan(e: SummedElements, blocks: Blocks, begin: bool, after: Narrow, count: int) -> dict[str, Array]:
    """Returns the sums [count, S] by key of ENDS."""
    products = e.summands.products
    sums = blocks.sums(products).T
    acc: Any = np.repeat((e.bias if begin else np.zeros_like(sums[0]))[None], count, 0)
    before = acc
    for block in sums:
        before = acc + block
        acc = after(before)
    short = products[0].size % blocks.size
    return {"every": acc, "all but the last": before} | ({"all whole": before} if short else {})


def _wrapped(acc: Array, p: Any) -> Array:
    half = np.int64(1) << (np.asarray(p, np.int64) - 1)
    return ((acc + half) & (2 * half - 1)) - half


def _lost(acc: Array, p: Any, rule: Rule) -> Array:
    step = functions64.exp2(np.asarray(p, np.float64))
    return (rule(acc / step) * step).astype(np.int64)


def _finished(e: SummedElements, acc: Array, begin: bool) -> Array:
    return e.requantized(acc.astype(np.int64) + (0 if begin else e.bias))


def _narrowed(e: SummedElements, blocks: Blocks, begin: bool, end: str, after: Narrow) -> Array:
    sums_by_end = _scan(e, blocks, begin, after, 1)
    return _finished(e, sums_by_end.get(end, sums_by_end["every"])[0], begin)
