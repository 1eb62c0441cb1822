"""Products of 16-bit operands are added from products of bytes, of which a part is lost or the low byte is read as
signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, requantization
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS

NAME = "split-products"
LATE = -1
OPS = LINEAR_OPS


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = requantization(case)
    if sums is not None and sums.wide and case.last.op not in ("global_average_pool", "reduce_mean", "average_pool"):
        yield from fitting(case, _ways(), in_parts=True)


def _ways() -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    for bits in (8, 4, 12):
        parts = f"(the lowest {bits} bits and the rest)"
        for text, kept in {
            "the product of both low parts is left out": (True, True, True, False),
            "the product of both high parts is left out": (False, True, True, True),
            "the product of the first's high and the second's low part is left out": (True, False, True, True),
            "the product of the first's low and the second's high part is left out": (True, True, False, True),
            "both mixed products are left out": (True, False, False, True),
            "only the product of both high parts is added": (True, False, False, False),
        }.items():
            yield f"operands are split in two {parts}: {text}", partial(_kept, bits=bits, kept=kept)
    for at, operand in enumerate(("the first operand", "the second operand")):
        yield f"the low byte of {operand} is taken as signed", partial(_signed_low, at=at)


def _kept(e: SummedElements, bits: int, kept: tuple[bool, ...]) -> Array:
    x, w = e.summands.centred_x, e.summands.centred_w
    low_x, low_w = x & ((1 << bits) - 1), w & ((1 << bits) - 1)
    high_x, high_w = x - low_x, w - low_w
    products = (high_x * high_w, high_x * low_w, low_x * high_w, low_x * low_w)
    return e.added(sum((p for p, keep in zip(products, kept, strict=True) if keep), np.zeros_like(products[0])))


def _signed_low(e: SummedElements, at: int) -> Array:
    operands = [e.summands.centred_x, e.summands.centred_w]
    operands[at] = operands[at] - 256 * (operands[at] >> 7 & 1)
    return e.added(operands[0] * operands[1])
