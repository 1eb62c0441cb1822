"""The sum times an integer multiplier does not fit its register: it wraps or saturates before it is shifted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "product-overflow"
OPS = LINEAR_OPS
LATE = -1
WIDTHS = (32, 31, 24, 16, 40, 48)


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case)
    if sums is None or not case.differing.size:
        return
    most = float(np.abs(sums.acc).max(initial=0))
    yield from fitting(case, _ways(most, sums.real))


def _ways(most: float, real: Array) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    exponent = int(np.floor(functions64.log2(real.max())))
    shifts: dict[str, tuple[int, int | None]] = {
        f"{n} bits, with a shift for each channel,": (n, None) for n in range(7, 32)
    }
    shifts |= {f"{k} fraction bits": (0, k) for k in range(6, 32)}
    for phrase, (bits, fraction) in shifts.items():
        largest = most * (2.0**bits if bits else real.max() * 2.0 ** (fraction or 0))
        for width in WIDTHS:
            if (
                largest < 2.0 ** (width - 1)
                or functions64.log2(max(largest, 1)) > 62
                or (fraction and fraction + exponent < 2)
            ):
                continue
            for verb, saturated in (("wraps", False), ("saturates", True)):
                text = f"the sum times an integer multiplier of {phrase} {verb} to {width} bits before it is shifted"
                for half in (True, False):
                    end = "rounded half up" if half else "rounded down (floor)"
                    yield (
                        f"{text}, the result {end}" if not half else text,
                        partial(_product, bits=bits, fraction=fraction, width=width, saturated=saturated, half=half),
                    )


def _product(e: SummedElements, bits: int, fraction: int | None, width: int, saturated: bool, half: bool) -> Array:
    scale = e.scale.astype(np.float64)
    shift = np.full(len(scale), fraction) if fraction is not None else bits - np.frexp(scale)[1].astype(np.int64)
    shift = np.clip(shift, 1, 62)
    multiplier = np.floor(scale * 2.0**shift + 0.5).astype(np.int64)
    product = e.acc * multiplier
    if half:
        product = product + (np.int64(1) << (shift - 1))
    limit = np.int64(1) << np.int64(width - 1)
    narrow = np.clip(product, -limit, limit - 1) if saturated else ((product + limit) & (2 * limit - 1)) - limit
    return e.finished(narrow >> shift)
