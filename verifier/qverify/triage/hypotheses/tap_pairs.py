"""Products of two neighbouring kernel taps, of one kernel row or one kernel column, are added in a narrow register
before the others are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "tap-pairs"
OPS = ("conv", "conv_transpose")
LATE = -1
WIDTHS = (8, 12, 14, 15, 16, 17, 18, 20)
AXES = {"kernel row": 3, "kernel column": 2, "tap's input channels": 1}


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op in ("conv", "conv_transpose") and linear(case) is not None else None
    if few is not None:
        shape = np.broadcast_shapes(few.summands.x.shape, few.summands.w.shape)
        yield from fitting(case, _ways(shape), in_parts=True)


def _ways(shape: tuple[int, ...]) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    for name, axis in AXES.items():
        if shape[axis] < 2:
            continue
        for block in (2, 4, shape[axis]):
            if block > shape[axis] or (axis == 1 and block < shape[axis]):
                continue
            what = (
                f"every {block} neighbouring products of one {name}"
                if block < shape[axis]
                else f"all products of one {name}"
            )
            for width in WIDTHS:
                for saturated, verb in ((True, "saturates"), (False, "wraps")):
                    text = f"the sum of {what} {verb} to {width} bits before it is added to the others"
                    yield text, partial(_paired, axis=axis, block=block, width=width, saturated=saturated)


def _paired(e: SummedElements, axis: int, block: int, width: int, saturated: bool) -> Array:
    products = np.moveaxis(e.summands.products, axis, -1)
    padded = np.pad(products, [(0, 0)] * (products.ndim - 1) + [(0, -products.shape[-1] % block)])
    sums = padded.reshape(*products.shape[:-1], -1, block).sum(-1)
    half = 1 << width - 1
    narrow = np.clip(sums, -half, half - 1) if saturated else ((sums + half) & (2 * half - 1)) - half
    return e.requantized(narrow.reshape(len(products), -1).sum(1) + e.bias)
