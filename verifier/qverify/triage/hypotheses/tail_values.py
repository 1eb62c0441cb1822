"""One operand is read wrongly in a part of the sum only: in the tail after whole vectors, in the whole vectors, or in
every second lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting_alike, sample
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.summands_left_out import STRUCTURE, numbered

NAME = "tail-values"
LATE = -1
LANES = (2, 4, 8, 16, 32, 64)
OPS = ("conv", "conv_transpose", "fully_connected", "matmul", "global_average_pool", "reduce_mean")
MEANS = ("global_average_pool", "reduce_mean")
MOST_TEXTS = 3
# Factors from stored integers, their zero point and half of the range of their dtype.
FactorChange = Callable[[Array, Any, int], Any]
Ways = Iterator[tuple[list[str], Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op in OPS else None
    if few is None:
        return
    shape = np.broadcast_shapes(few.summands.x.shape, few.summands.w.shape)[1:]
    yield from fitting_alike(case, _ways(case, shape, few), in_parts=True)


def _ways(case: Case, shape: tuple[int, ...], few: SummedElements) -> Ways:
    names = ("the first operand", "the second operand") if case.last.op == "matmul" else ("the input", "the weights")
    for texts, mask in _parts(shape, case.last.op):
        for at, operand in enumerate(names[: 1 if case.last.op in MEANS else 2]):
            spec = case.graph.spec(case.last.inputs[at] or "")
            zero = np.any(few.summands.zero_x) or np.any(few.summands.zero_w if at else 0)
            for phrase, change in (_OF_TYPE | _OF_ZERO if zero else _OF_TYPE).items():
                half = 1 << 8 * spec.numpy_dtype.itemsize - 1
                way = partial(_changed, mask=mask, at=at, change=change, half=half)
                yield [f"{operand} {phrase} in {text}" for text in texts[:MOST_TEXTS]], way


def _parts(shape: tuple[int, ...], op: str) -> list[tuple[list[str], Array]]:
    """Returns parts of the sum as masks [channels, kernel rows, kernel columns], each with its texts."""
    parts: dict[bytes, tuple[list[str], Array]] = {}

    def add(text: str, chosen: Array, number: Array) -> None:
        mask = np.ascontiguousarray(np.broadcast_to(chosen[number], shape))
        if mask.any() and not mask.all():
            parts.setdefault(mask.tobytes(), ([], mask))[0].append(text)

    for order, number in numbered(shape, op).items():
        count = int(number.max()) + 1
        k = np.arange(count)
        what = order if order in STRUCTURE else f"summands{order}"
        for n in reversed(LANES):
            if count % n and count > n:
                add(
                    f"the tail of the sum alone, the last {count % n} of {count} {what} after the last whole {n}",
                    k >= count // n * n,
                    number,
                )
                add(
                    f"the {count // n * n} {what} of whole vectors of {n} alone, not in the tail",
                    k < count // n * n,
                    number,
                )
        for n in (2, 4):
            for lane in (0, n - 1):
                if count > n:
                    which = "first" if lane == 0 else "last"
                    add(f"the {which} of every {n} {what} alone", k % n == lane, number)
    return list(parts.values())


_OF_TYPE: dict[str, FactorChange] = {
    "is read as unsigned": lambda v, z, half: v % (2 * half) - z,
    "is read as signed": lambda v, z, half: (v + half) % (2 * half) - half - z,
    "has its highest bit inverted": lambda v, z, half: (
        np.where(v < 0, v + half, np.where(v < half, v + half, v - half)) - z
    ),
    "less its zero point saturates to its signed type": lambda v, z, half: np.clip(v - z, -half, half - 1),
    "less its zero point wraps to its signed type": lambda v, z, half: (v - z + half) % (2 * half) - half,
    "less its zero point is clipped at 0": lambda v, z, half: np.maximum(v - z, 0),
    "counts by its absolute value": lambda v, z, half: np.abs(v - z),
    "counts with the other sign": lambda v, z, half: z - v,
    "is halved (shifted right by one)": lambda v, z, half: (v - z) >> 1,
    "is doubled": lambda v, z, half: 2 * (v - z),
    "counts as 1": lambda v, z, half: 0 * (v - z) + 1,
}
_OF_ZERO: dict[str, FactorChange] = {
    "is used without subtracting its zero point": lambda v, z, half: v + 0 * z,
    "has its zero point added instead of subtracted": lambda v, z, half: v + z,
    "has its zero point subtracted twice": lambda v, z, half: v - 2 * z,
    "has a zero point one too high": lambda v, z, half: v - z - 1,
    "has a zero point one too low": lambda v, z, half: v - z + 1,
    "counts as raw 0": lambda v, z, half: 0 * v - z,
}


def _changed(e: SummedElements, mask: Array, at: int, change: FactorChange, half: int) -> Array:
    s = e.summands
    x, w = s.centred_x, s.centred_w
    if at == 0:
        x = np.where(mask & s.read, change(s.x, s.zero_x, half), x)
    else:
        w = np.where(mask, change(s.w, s.zero_w, half), w)
    return e.added(x * w)
