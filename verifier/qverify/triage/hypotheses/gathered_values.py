"""A convolution reads its input on two paths, whole runs of pixels and one by one at borders or with a stride, and one path
changes the values: their sign, their width, their zero point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.gathered_runs import PANELS, one_by_one
from qverify.triage.altered_kernels.summed_elements import SummedElements, bias_of, fitting, sample, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "gathered-values"
LATE = -1
Change = Callable[[Array, Array], Any]  # stored integers and the zero point to what is multiplied


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op == "conv" else None
    if few is None:
        return
    shape = case.graph.spec(case.last.inputs[1] or "").shape
    if shape[1] == 1 or (int(np.prod(shape[2:])) == 1 and words_of(case)["stride_w"] == 1):
        return
    yield from fitting(case, _ways(case), in_parts=True)


def _ways(case: Case) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    size = case.graph.spec(case.last.inputs[0] or "").numpy_dtype.itemsize
    strided = words_of(case)["stride_w"] > 1
    for panel in PANELS[: 1 if strided else len(PANELS)]:
        run = f"runs of {panel} pixels" if panel else "whole output rows"
        for slow, where in (
            (True, "gathered one by one (stride above 1, or {} that cross the left or right border)"),
            (False, "gathered as whole {} that cross no border"),
        ):
            if strided and not slow:
                continue
            for said, change in _changes(size).items():
                text = f"the input {said}, only where it is {where.format(run)}"
                yield text, partial(_changed, panel=panel, slow=slow, change=change)


def _changes(size: int) -> dict[str, Change]:
    half = 1 << 8 * size - 1
    ways: dict[str, Change] = {
        "is read as unsigned: negative elements count 2^n more": lambda v, z: v % (2 * half) - z,
        "is read as signed: elements of the upper half count 2^n less": lambda v, z: (v + half) % (2 * half) - half - z,
        "has its highest bit inverted": lambda v, z: np.where(v < half, v + half, v - half) - z,
        "is used without subtracting its zero point": lambda v, z: v + 0 * z,
        "has its zero point added instead of subtracted": lambda v, z: v + z,
        "has its zero point subtracted twice": lambda v, z: v - 2 * z,
        "counts as zero": lambda v, z: 0 * v,
        "counts by its absolute value": lambda v, z: np.abs(v - z),
        "is clipped at 0 after its zero point is subtracted": lambda v, z: np.maximum(v - z, 0),
    }
    for n in range(4, 8 * size + 1):
        low = 1 << n - 1
        ways[f"less its zero point saturates to {n} bits ({-low}..{low - 1})"] = partial(
            _clipped, low=-low, high=low - 1
        )
        ways[f"less its zero point saturates to -{low - 1}..{low - 1}"] = partial(_clipped, low=1 - low, high=low - 1)
        ways[f"less its zero point wraps to {n} bits"] = partial(_wrapped, half=low)
        ways[f"less its zero point saturates to unsigned {n} bits"] = partial(_clipped, low=0, high=2 * low - 1)
    for n in range(1, 5):
        ways[f"loses its lowest {n} bits"] = partial(_cut, bits=n)
    return ways


def _clipped(v: Array, z: Array, low: int, high: int) -> Array:
    return np.clip(v - z, low, high)


def _wrapped(v: Array, z: Array, half: int) -> Array:
    return ((v - z + half) & (2 * half - 1)) - half


def _cut(v: Array, z: Array, bits: int) -> Array:
    return (v >> bits << bits) - z


def _changed(e: SummedElements, panel: int, slow: bool, change: Change) -> Array:
    s = e.summands
    there = (one_by_one(e, panel) == slow) & s.read
    if not there.any():
        return np.ascontiguousarray(e.case.made).reshape(-1)[e.places]
    x = np.where(there, change(s.x, np.array(s.zero_x)), s.centred_x)
    products = x * s.centred_w
    return e.requantized(products.reshape(len(products), -1).sum(1) + (e.bias if bias_of(e.case).any() else 0))
