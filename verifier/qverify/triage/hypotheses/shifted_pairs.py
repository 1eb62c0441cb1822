"""Inputs of int8 become unsigned bytes (128 is added), every two neighbouring products by the weights saturate to 16
bits, and 128 times the sum of the weights is subtracted at the end: s8 x s8 on processors with AVX2 and no VNNI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.blocks import saturated_sums
from qverify.triage.altered_kernels.summands import reads_padding
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "shifted-pairs"
OPS = ("conv", "conv_transpose", "fully_connected", "matmul")
LATE = -1
OFFSET = 128  # of the bytes, which an x86 multiplication of bytes takes as unsigned in its first operand
INNER, OUTER, TAPS = (
    "channels innermost",
    "channels outermost",
    "channels innermost, each tap's channels by themselves",
)
GROUPS = {  # how many products each saturating addition takes
    "every two neighbouring products saturate to 16 bits": (2,),
    "every two neighbouring products, then every two of these sums, saturate to 16 bits": (2, 2),
}
PADDING = {"": "zero point", ", padding is 0 before 128 is added": "zero", ", padding is left out": "none"}


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if linear(case) is not None else None
    if few is not None and case.graph.spec(case.last.inputs[0] or "").dtype == "int8":
        yield from fitting(case, _ways(few, bool(reads_padding(case).any())), in_parts=True, bits=1.0)


def _ways(few: SummedElements, padded: bool) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    channels, rows, columns = few.summands.products.shape[1:]
    orders = (INNER, OUTER, TAPS) if channels > 1 and rows * columns > 1 else ("",)
    for order in orders:
        for phrase, groups in GROUPS.items():
            for ending, padding in PADDING.items() if padded else (("", "zero point"),):
                where = f" ({order})" if order else ""
                text = (
                    f"{OFFSET} is added to the int8 inputs and {OFFSET} times the sum of the weights is subtracted, and in "
                    f"between {phrase}{where}{ending}"
                )
                yield text, partial(_saturating, order=order, groups=groups, padding=padding)


def _saturating(e: SummedElements, order: str, groups: tuple[int, ...], padding: str) -> Array:
    of, shape = e.summands, e.summands.products.shape
    weights = np.broadcast_to(of.centred_w, shape) * (of.read if padding == "none" else True)
    x, zero = (np.where(of.read, v, 0) if padding == "zero" else v for v in (of.x, of.zero_x))
    sums = _in_order((x + OFFSET) * weights, order)
    for size in groups:
        padded = np.pad(sums, [(0, 0)] * (sums.ndim - 1) + [(0, -sums.shape[-1] % size)])
        sums = saturated_sums(padded.reshape(*padded.shape[:-1], -1, size).sum(-1), 16)
    exact = ((zero + OFFSET) * weights).reshape(len(weights), -1).sum(1)
    return e.requantized(sums.reshape(len(sums), -1).sum(1) - exact + e.bias)


def _in_order(products: Array, order: str) -> Array:
    """Returns products [S, channels, kernel rows, kernel columns] as [S, taps, channels] or [S, products]."""
    inner = products if order in (OUTER, "") else np.moveaxis(products, 1, -1)
    return inner.reshape(len(products), -1, inner.shape[-1]) if order == TAPS else inner.reshape(len(products), -1)
