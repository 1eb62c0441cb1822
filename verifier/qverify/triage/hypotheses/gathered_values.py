"""A convolution reads its input on two paths (whole runs of pixels, or pixel by pixel at borders or with a stride), and
one path changes the values: their sign, their width or their zero point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.triage.altered_kernels.gathered_runs import one_by_one, runs
from qverify.triage.altered_kernels.summed_elements import SummedElements, bias_of, fitting_alike, sample, words_of
from qverify.triage.case import Array, Case, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "gathered-values"
OPS = ("conv",)
LATE = -1
MOST_TEXTS = 4
FactorChange = Callable[[Array, Array], Any]  # factors from stored integers and their zero point


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case) if case.last.op == "conv" else None
    if few is None:
        return
    shape = case.graph.spec(case.last.inputs[1] or "").shape
    if shape[1] == 1 or (int(np.prod(shape[2:])) == 1 and words_of(case)["stride_w"] == 1):
        return
    yield from fitting_alike(case, _ways(case), in_parts=True)


def _ways(case: Case) -> Iterator[tuple[list[str], Callable[[SummedElements], Array]]]:
    strided = words_of(case)["stride_w"] > 1
    distinct = _distinct(case)
    for panel, lengths in runs(case).items():
        for slow in (True,) if strided else (True, False):
            paths = [_path(strided, slow, run) for run in lengths[: 1 if strided else None]]
            for alike, change in distinct:
                texts = [f"the input {alike[0]}, only where it is {path}" for path in paths]
                texts += [f"the input {other}, only where it is {paths[0]}" for other in alike[1:MOST_TEXTS]]
                yield texts, partial(_changed, panel=panel, slow=slow, change=change)


def _path(strided: bool, slow: bool, run: str) -> str:
    if strided:
        return "gathered one by one, as the stride is above 1"
    return (
        f"gathered one by one ({run} that cross the left or right border)"
        if slow
        else f"gathered as {run} that cross no border"
    )


def _distinct(case: Case) -> list[tuple[list[str], FactorChange]]:
    """Returns the changes that differ for some value of the input, each with the texts of all that are equivalent."""
    spec = case.graph.spec(case.last.inputs[0] or "")
    (low, high), zero = limits(spec), np.array(spec.zero_point[0])
    values = np.arange(low, high + 1)
    changes: dict[bytes, tuple[list[str], FactorChange]] = {}
    for text, change in _changes(spec.numpy_dtype.itemsize).items():
        changed = np.asarray(change(values, zero), np.int64)
        if (changed != values - zero).any():
            changes.setdefault(changed.tobytes(), ([], change))[0].append(text)
    return list(changes.values())


def _changes(size: int) -> dict[str, FactorChange]:
    half = 1 << 8 * size - 1
    ways: dict[str, FactorChange] = {
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
    for text, narrow in _NARROW.items():
        for n in range(8 * size, 3, -1):
            low = 1 << n - 1
            ways[f"less its zero point {text.format(n, low, low - 1)}"] = partial(narrow, half=low)
    for n in range(1, 5):
        ways[f"loses its lowest {n} bits"] = partial(_cut, bits=n)
    return ways


_NARROW: dict[str, Callable[..., Array]] = {
    "saturates to {0} bits (-{1}..{2})": lambda v, z, half: np.clip(v - z, -half, half - 1),
    "wraps to {0} bits": lambda v, z, half: ((v - z + half) & (2 * half - 1)) - half,
    "saturates to -{2}..{2}": lambda v, z, half: np.clip(v - z, 1 - half, half - 1),
    "saturates to unsigned {0} bits": lambda v, z, half: np.clip(v - z, 0, 2 * half - 1),
}


def _cut(v: Array, z: Array, bits: int) -> Array:
    return (v >> bits << bits) - z


def _changed(e: SummedElements, panel: int, slow: bool, change: FactorChange) -> Array:
    s = e.summands
    on_path = (one_by_one(e.case, e.places, panel) == slow) & s.read
    if not on_path.any():
        return np.ascontiguousarray(e.case.healthy).reshape(-1)[e.places]
    x = np.where(on_path, change(s.x, np.array(s.zero_x)), s.centred_x)
    products = x * s.centred_w
    return e.requantized(products.reshape(len(products), -1).sum(1) + (e.bias if bias_of(e.case).any() else 0))
