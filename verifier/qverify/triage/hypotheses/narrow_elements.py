"""Elements of an input or the output are cut to fewer bits: one byte of two, sign-extended or not, the lowest bits
lost, floats kept in 16 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.altered_kernels.narrow_steps import NARROW
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "narrow-elements"
Way = Callable[[Array], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "output", "input"):
        for cost, phrase, way in _ways(place.spec.numpy_dtype, place.spec.zero_point[:1]):
            text = f"the elements of {place.label} {phrase}"
            yield from check_where_it_differs(case, text, output_from(place, way), cost)


def _ways(dtype: np.dtype[np.generic], zero: tuple[int, ...]) -> Iterator[tuple[float, str, Way]]:
    if dtype.kind == "f":
        for name, narrow in NARROW.items():
            yield 2.0, f"are kept in {name}", _as(dtype, narrow)
        return
    if dtype.kind not in "iu":
        return
    wide, width = _as, 8 * dtype.itemsize
    for low in (8, 16, 32):
        if low < width:
            yield 1.5, f"are cut to their lowest {low} bits", wide(dtype, _Lowest(low, False))
            yield 1.5, f"are cut to their lowest {low} bits and sign-extended", wide(dtype, _Lowest(low, True))
            yield 2.0, f"saturate to {low} bits, signed", wide(dtype, _Saturated(low))
    if width == 16:
        yield 2.0, "are read as their high byte alone", wide(dtype, lambda v: v >> 8)
        yield 2.0, "have their two bytes exchanged", lambda v: v.byteswap()
    for k in range(1, min(width, 16) - 1):
        yield 3.0, f"lose their lowest {k} bit{'s' * (k > 1)}", wide(dtype, _Dropped(k, 0, 0))
        yield 3.5, f"are rounded to multiples of {1 << k}", wide(dtype, _Dropped(k, 1 << k - 1, 0))
        if zero and zero[0]:
            yield 3.5, f"are cut to multiples of {1 << k} from the zero point", wide(dtype, _Dropped(k, 0, zero[0]))


class _Lowest:
    def __init__(self, count: int, signed: bool):
        self.half, self.signed = 1 << count - 1, signed

    def __call__(self, v: Array) -> Array:
        low = v & (2 * self.half - 1)
        return (low ^ self.half) - self.half if self.signed else low


class _Saturated:
    def __init__(self, count: int):
        self.half = 1 << count - 1

    def __call__(self, v: Array) -> Array:
        return np.clip(v, -self.half, self.half - 1)


class _Dropped:
    def __init__(self, count: int, half: int, zero: int):
        self.count, self.half, self.zero = count, half, zero

    def __call__(self, v: Array) -> Array:
        return (v - self.zero + self.half >> self.count << self.count) + self.zero


def _as(dtype: np.dtype[np.generic], way: Way) -> Way:
    """Returns a function of elements of this dtype that computes in 64 bits, or in floats, and returns the same
    dtype."""

    def cut(values: Array) -> Array:
        wide = values if dtype.kind == "f" else values.astype(np.int64)
        result = way(wide)
        if dtype.kind in "iu":
            info = np.iinfo(dtype.name)
            result = np.clip(result, info.min, info.max)
        return result.astype(values.dtype)

    return cut
