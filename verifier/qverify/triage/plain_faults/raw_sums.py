"""Sums are formed of the stored integers, whose zero point is subtracted afterwards, in an accumulator that is too
narrow for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.near_ways import may_nearly_fit
from qverify.triage.altered_kernels.summands import depth
from qverify.triage.altered_kernels.summed_elements import SummedElements, sample, whole
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "raw-sums"
MEANS = ("average_pool", "global_average_pool", "reduce_mean")
OPS = (*MEANS, "conv", "conv_transpose", "fully_connected", "matmul")
WIDTHS = (16, 20, 24, 18, 15, 12)
MOST_STEPS = 4096  # summands that are added one by one
Narrow = Callable[[Array, int, int], Array]  # of a sum: limits it to low..high


def variants(case: Case) -> Iterator[FaultVariant]:
    zero = case.graph.spec(case.last.inputs[0] or "").zero_point
    is_mean = case.last.op in MEANS
    if case.last.op not in OPS or len(case.unit.nodes) > 1 or len(zero) != 1 or sample(case) is None:
        return
    if not zero[0] and case.last.op != "average_pool":
        return  # the sums of the hypothesis `accumulator` are the same
    what = "the sum of the stored integers" if is_mean else "the sum of products with the input's zero point still in"
    for width in WIDTHS:
        ranges = {"": (-(1 << width - 1), (1 << width - 1) - 1)}
        if is_mean and case.graph.spec(case.last.inputs[0] or "").numpy_dtype.kind == "u":
            ranges[" unsigned"] = (0, (1 << width) - 1)
        for sign, (low, high) in ranges.items():
            for verb, way in _ways(case, low, high).items():
                yield FaultVariant(
                    f"{what} {verb.format(f'{width}{sign} bits')}",
                    partial(whole, way=way, in_parts=True),
                    3.0 if width == 16 else 5.0,
                    may_fit=partial(may_nearly_fit, way=way),
                )


def _ways(case: Case, low: int, high: int) -> dict[str, Callable[[SummedElements], Array]]:
    ways: dict[str, Callable[[SummedElements], Array]] = {
        "saturates to {}": partial(_narrowed, low=low, high=high, narrow=np.clip),
        "wraps at {}": partial(_narrowed, low=low, high=high, narrow=_wrap),
    }
    if case.last.op in MEANS and depth(case) <= MOST_STEPS:
        ways["saturates to {} at every step"] = partial(_by_steps, low=low, high=high)
    return ways


def _wrap(values: Array, low: int, high: int) -> Array:
    return low + (values - low & high - low)


def _raw(e: SummedElements) -> tuple[Array, Array]:
    """Returns the raw products of each element, [S, summands], and what the zero point adds to their sum. Padding holds
    the zero point, but in a mean, and between the elements of a stretched input, it is left out."""
    of, shape = e.summands, (len(e.places), -1)
    w = of.centred_w if e.case.last.op == "conv" else of.centred_w * of.read
    every = np.zeros(np.broadcast_shapes(of.x.shape, of.w.shape, of.read.shape), np.int64)
    return (every + of.x * w).reshape(shape), (every + of.zero_x * w).reshape(shape).sum(1)


def _narrowed(e: SummedElements, low: int, high: int, narrow: Narrow) -> Array:
    products, offset = _raw(e)
    return e.requantized(narrow(products.sum(1), low, high) - offset + e.bias)


def _by_steps(e: SummedElements, low: int, high: int) -> Array:
    products, offset = _raw(e)
    total = np.zeros(len(products), np.int64)
    for term in products.T:
        total = np.clip(total + term, low, high)
    return e.requantized(total - offset + e.bias)
