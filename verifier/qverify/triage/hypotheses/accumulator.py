"""The accumulator is too narrow: it wraps, or it saturates at the end, at every step, or for the sum of two
products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.stepwise import (
    MAX_STEPS,
    ORDERS,
    in_order,
    largest_product,
    largest_sum,
    pairwise,
    steps,
    stepwise,
)
from qverify.triage.altered_kernels.summed_elements import SummedElements, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, Linear, linear, required_linear

NAME = "accumulator"
LATE = 2
OPS = LINEAR_OPS
WIDTHS = (8, 12, 14, 15, 16, 17, 18, 20, 22, 24, 26, 28, 30, 31, 32)


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case)
    if sums is None or case.last.op == "mul":
        return
    least, most = int(sums.acc.min()), int(sums.acc.max())
    for width in WIDTHS:
        if least < -(1 << width - 1) or most >= 1 << width - 1:
            yield FaultVariant(
                f"accumulator of {width} bits that wraps", partial(_final, way=partial(_wrapped, width=width))
            )
            saturated = partial(_saturated, width=width)
            yield FaultVariant(f"accumulator saturated to {width} bits at the end", partial(_final, way=saturated))
            saturated = partial(_before_bias, way=saturated)
            yield FaultVariant(f"accumulator saturated to {width} bits before the bias", saturated)
    if case.last.op in ("conv", "fully_connected") and steps(case) <= MAX_STEPS:
        yield from _yield_stepwise(case)
        yield from _yield_pairwise(case)


def _final(case: Case, way: Callable[[Array], Array]) -> Array:
    sums = required_linear(case)
    return sums.output(way(sums.acc))


def _wrapped(acc: Array, width: int) -> Array:
    return acc << 64 - width >> 64 - width


def _saturated(acc: Array, width: int) -> Array:
    return np.clip(acc, -(1 << width - 1), (1 << width - 1) - 1)


def bias_of(case: Case, sums: Linear) -> Array:
    """Returns the bias, shaped to broadcast against the accumulator; 0 if there is none."""
    name = case.last.inputs[2] if case.last.op in ("conv", "conv_transpose", "fully_connected") else None
    return np.zeros((), np.int64) if name is None else sums.along(case.graph.constants[name].astype(np.int64))


def _before_bias(case: Case, way: Callable[[Array], Array]) -> Array:
    sums = required_linear(case)
    bias = bias_of(case, sums)
    return sums.output(way(sums.acc - bias) + bias)


def _yield_stepwise(case: Case) -> Iterator[FaultVariant]:
    sums = required_linear(case)
    if largest_sum(case) + int(np.abs(bias_of(case, sums)).max()) < 1 << 15:
        return
    for order in ORDERS:
        for bias_first in (True, False):
            text = f"accumulator saturated to 16 bits at every step, {order}, bias {'first' if bias_first else 'last'}"
            compute = partial(_by_steps, order=order, bias_first=bias_first)
            if (bias_of(case, sums) == 0).all() and not bias_first:
                continue
            look = partial(_may_fit, way=partial(_few_by_steps, order=order, bias_first=bias_first))
            yield FaultVariant(text, compute, may_fit=look)


def _by_steps(case: Case, order: str, bias_first: bool) -> Array:
    sums = required_linear(case)
    bias = bias_of(case, sums)
    start = np.broadcast_to(bias if bias_first else np.zeros_like(bias), sums.acc.shape)
    acc = stepwise(case, order, partial(_saturated, width=16), start)
    return sums.output(acc if bias_first else _saturated(acc + bias, 16))


def _yield_pairwise(case: Case) -> Iterator[FaultVariant]:
    """Yields faults in which two neighbouring products are added in 16 bits, as byte instructions do, and their sums in
    32 bits."""
    read_as = {"": 0, ", the input's zero point still in": case.graph.spec(case.last.inputs[0] or "").zero_point[0]}
    for phrase, zero in read_as.items():
        if (zero or not phrase) and 2 * largest_product(case, zero) >= 1 << 15:
            for order in ORDERS:
                text = f"every two products saturated to 16 bits, {order}{phrase}"
                look = partial(_may_fit, way=partial(_few_by_pairs, order=order, zero=zero))
                yield FaultVariant(text, partial(_by_pairs, order=order, zero=zero), may_fit=look)


def _by_pairs(case: Case, order: str, zero: int) -> Array:
    sums = required_linear(case)
    start = np.broadcast_to(bias_of(case, sums), sums.acc.shape)
    return sums.output(pairwise(case, order, partial(_saturated, width=16), start, zero))


def _may_fit(case: Case, way: Callable[[SummedElements], Array]) -> bool:
    """Returns whether the sums of the way give at least half of some differing elements; True if that is not known."""
    few = sample(case)
    if few is None:
        return True
    healthy, recorded = (values.reshape(-1)[few.places] for values in (case.healthy, case.recorded))
    if (few.requantized(few.acc) != healthy).any():
        return True
    return bool(2 * np.count_nonzero(few.requantized(way(few)) == recorded) >= len(few.places))


def _few_by_steps(few: SummedElements, order: str, bias_first: bool) -> Array:
    acc = few.bias if bias_first else np.zeros_like(few.bias)
    for product in in_order(few.case, order, few.summands.products).T:
        acc = _saturated(acc + product, 16)
    return acc if bias_first else _saturated(acc + few.bias, 16)


def _few_by_pairs(few: SummedElements, order: str, zero: int) -> Array:
    of = few.summands
    products = in_order(few.case, order, (of.centred_x + zero) * of.centred_w)
    correction = few.bias - in_order(few.case, order, zero * np.broadcast_to(of.centred_w, of.products.shape)).sum(1)
    even = products[:, : products.shape[1] // 2 * 2]
    return (
        correction
        + _saturated(even[:, ::2] + even[:, 1::2], 16).sum(1)
        + _saturated(products[:, even.shape[1] :].sum(1), 16)
    )
