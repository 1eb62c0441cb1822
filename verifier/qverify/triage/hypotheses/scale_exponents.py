"""The exponent of a requantization scale is limited or wraps: the shift of a channel saturates while its multiplier
stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "scale-exponents"
OPS = LINEAR_OPS
LATE = -1


def variants(case: Case) -> Iterator[FaultVariant]:
    sums = linear(case)
    if sums is not None:
        yield from fitting(case, _ways(np.frexp(sums.real.astype(np.float64))[1]), bits=0.8)


def _ways(exponents: Array) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    least, most = int(exponents.min()), int(exponents.max())
    for limit in range(least + 1, min(least + 10, 4)):
        text = f"the shift of the requantization scale is limited: scales below 2^{limit - 1} keep their mantissa and count as from 2^{limit - 1} to 2^{limit}"
        yield text, partial(_limited, low=limit, high=most)
    for limit in range(max(least, most - 9), most):
        text = f"the shift of the requantization scale is limited: scales of 2^{limit} and more keep their mantissa and count as from 2^{limit - 1} to 2^{limit}"
        yield text, partial(_limited, low=least, high=limit)
    if least < most:
        for phrase, shared in (("largest", most), ("smallest", least)):
            yield (
                f"all channels are shifted as the one with the {phrase} requantization scale; each keeps its own mantissa",
                partial(_limited, low=shared, high=shared),
            )
    yield (
        "the mantissa of the requantization scale is left out: only its shift is applied",
        partial(_without_mantissa, by=1.0),
    )
    yield (
        "the mantissa of the requantization scale is left out, and its shift is one too large",
        partial(_without_mantissa, by=0.5),
    )


def _limited(e: SummedElements, low: int, high: int) -> Array:
    mantissa, exponent = np.frexp(e.scale.astype(np.float64))
    return e.rounded(e.steps(e.acc, np.ldexp(mantissa, np.clip(exponent, low, high)).astype(e.scale.dtype)))


def _without_mantissa(e: SummedElements, by: float) -> Array:
    _, exponent = np.frexp(e.scale.astype(np.float64))
    return e.rounded(e.steps(e.acc, (by * np.ldexp(1.0, exponent)).astype(e.scale.dtype)))
