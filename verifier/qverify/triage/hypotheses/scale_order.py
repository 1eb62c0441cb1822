"""The scales of input, weights and output are applied one after the other in float32, or divided, instead of as one
product; or negative sums are scaled differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "scale-order"
LATE = -1
OPS = ("conv", "conv_transpose", "fully_connected", "matmul", "mul", "global_average_pool", "reduce_mean")
F = np.float32
Scales = tuple[Array, Array, Array]  # of both operands and of the output, float32, one per element


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case) if case.last.op in OPS else None
    if sums is None:
        return
    yield from fitting(case, ((text, partial(_negative, way=way)) for text, way in _NEGATIVE.items()), bits=0.7)
    if sums.rq.dtype == np.float32:
        two = case.last.op not in ("global_average_pool", "reduce_mean")
        ways = {**_ORDERS, **(_OF_TWO if two else {})}
        yield from fitting(case, ((text, partial(_ordered, way=way)) for text, way in ways.items()), bits=1.5)


def _scales(e: SummedElements) -> Scales:
    case = e.case
    names = [n for n in case.last.inputs[:2] if n is not None and case.graph.spec(n).quantized]
    scales = []
    for name in names:
        values = np.array(case.graph.spec(name).scale, F)
        scales.append(values[e.channel if len(values) > 1 else 0 * e.channel])
    y = np.full(len(e.places), F(case.spec.scale[0]))
    if len(scales) == 1:  # a mean, whose second scale is 1 / count
        scales.append((e.scale.astype(np.float64) * y / scales[0]).astype(F))
    return scales[0], scales[1], y


_ORDERS: dict[str, Callable[[Array, Scales], Array]] = {
    "the sum is multiplied by the product of the operands' scales and divided by the output's, in float32": lambda a, s: (
        a * (s[0] * s[1]) / s[2]
    ),
    "the sum is multiplied by the product of the operands' scales and by 1/(the output's scale), in float32": lambda a, s: (
        a * (s[0] * s[1]) * (F(1) / s[2])
    ),
    "the sum is divided by (the output's scale / the product of the operands' scales), in float32": lambda a, s: (
        a / (s[2] / (s[0] * s[1]))
    ),
    "the sum is multiplied by a float32 product of the operands' scales and 1/(the output's scale)": lambda a, s: (
        a * (s[0] * s[1] * (F(1) / s[2]))
    ),
}
_OF_TWO: dict[str, Callable[[Array, Scales], Array]] = {
    "the sum is multiplied by the first operand's scale, then by the second's, then divided by the output's, in float32": lambda a, s: (
        a * s[0] * s[1] / s[2]
    ),
    "the sum is multiplied by the second operand's scale, then by the first's, then divided by the output's, in float32": lambda a, s: (
        a * s[1] * s[0] / s[2]
    ),
    "the sum is multiplied by (first scale / output scale), then by the second scale, in float32": lambda a, s: (
        a * (s[0] / s[2]) * s[1]
    ),
    "the sum is multiplied by (second scale / output scale), then by the first scale, in float32": lambda a, s: (
        a * (s[1] / s[2]) * s[0]
    ),
    "the sum is multiplied by the float32 product of first scale and (second scale / output scale)": lambda a, s: (
        a * (s[0] * (s[1] / s[2]))
    ),
    "the sum is multiplied by the float32 product of (first scale / output scale) and second scale": lambda a, s: (
        a * ((s[0] / s[2]) * s[1])
    ),
}


def _ordered(e: SummedElements, way: Callable[[Array, Scales], Array]) -> Array:
    return e.rounded(way(e.acc.astype(F), _scales(e)).astype(F))


def _negative(e: SummedElements, way: Callable[[SummedElements, Array], Array]) -> Array:
    return np.where(e.acc < 0, way(e, e.acc), e.requantized(e.acc))


def _highest(e: SummedElements, acc: Array) -> Array:
    return np.full(len(acc), e.sums.high, e.sums.dtype)


_NEGATIVE: dict[str, Callable[[SummedElements, Array], Array]] = {
    "negative sums are shifted or scaled as unsigned numbers: they saturate at the upper limit": _highest,
    "negative sums lose their sign: their absolute value is scaled": lambda e, acc: e.requantized(-acc),
    "negative sums become 0: the zero point": lambda e, acc: e.requantized(0 * acc),
    "negative sums become 1 step less than they should": lambda e, acc: e.finished(np.rint(e.steps(acc)) - 1),
    "negative sums become 1 step more than they should": lambda e, acc: e.finished(np.rint(e.steps(acc)) + 1),
    "negative sums are inverted bit by bit instead of negated, scaled by their absolute value and inverted back": lambda e, acc: (
        e.finished(~np.rint(e.steps(~acc)).astype(np.int64))
    ),
}
