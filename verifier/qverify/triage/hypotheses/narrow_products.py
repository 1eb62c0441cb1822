"""The product of a multiplication saturates or wraps before it is scaled, or its operands do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.narrow_floats import FORMATS, Narrow
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "narrow-products"
OPS = ("mul",)
LATE = -1
WIDTHS = range(6, 33)


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op == "mul" and linear(case) is not None:
        yield from fitting(case, _ways(), bits=0.7)


def _ways() -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    product = "the product (A - za) * (B - zb)"
    for width in WIDTHS:
        half = 1 << width - 1
        yield (
            f"{product} saturates to {width} bits ({-half}..{half - 1}) before it is scaled",
            partial(_clipped, low=-half, high=half - 1),
        )
        yield (
            f"{product} saturates to {1 - half}..{half - 1} before it is scaled",
            partial(_clipped, low=1 - half, high=half - 1),
        )
        yield (
            f"{product} saturates to unsigned {width} bits (0..{2 * half - 1}) before it is scaled",
            partial(_clipped, low=0, high=2 * half - 1),
        )
        yield f"{product} wraps to {width} bits before it is scaled", partial(_wrapped, half=half, signed=True)
        yield (
            f"{product} wraps to unsigned {width} bits before it is scaled",
            partial(_wrapped, half=half, signed=False),
        )
    yield f"{product} is taken by its absolute value", partial(_changed, way=np.abs)
    yield f"{product} is negated", partial(_changed, way=np.negative)
    for name, narrow in FORMATS.items():
        yield f"{product} is kept in {name}", partial(_narrowed, narrow=narrow)


def _clipped(e: SummedElements, low: int, high: int) -> Array:
    return e.requantized(np.clip(e.acc, low, high))


def _wrapped(e: SummedElements, half: int, signed: bool) -> Array:
    low = half if signed else 0
    return e.requantized(((e.acc + low) & (2 * half - 1)) - low)


def _changed(e: SummedElements, way: Callable[[Array], Array]) -> Array:
    return e.requantized(way(e.acc))


def _narrowed(e: SummedElements, narrow: Narrow) -> Array:
    return e.requantized(narrow(e.acc.astype(np.float64)).astype(np.int64))
