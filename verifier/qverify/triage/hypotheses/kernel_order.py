"""The kernel is rotated, mirrored or transposed, or a tap or the last channels of the sum are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "kernel-order"
OPS = ("conv", "conv_transpose", "fully_connected")


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "constant"):
        if place.label != "the weights":
            continue
        weights = case.graph.constants[place.name]
        if weights.ndim == 4 and weights.shape[2:] != (1, 1):
            for text, way in _ways(weights).items():
                yield FaultVariant(f"kernel {text}", output_from(place, way))
        zero = place.spec.zero_point
        for text, part in _left_out(weights).items():
            yield FaultVariant(
                f"{text} of the weights left out of the sum",
                output_from(place, partial(_without, part=part, zero=zero)),
            )


def _ways(weights: Array) -> dict[str, Callable[[Array], Array]]:
    ways: dict[str, Callable[[Array], Array]] = {
        "rotated by 180 degrees": lambda w: w[:, :, ::-1, ::-1],
        "upside down": lambda w: w[:, :, ::-1],
        "mirrored": lambda w: w[:, :, :, ::-1],
    }
    if weights.shape[2] == weights.shape[3]:
        ways["transposed"] = lambda w: w.swapaxes(2, 3)
    return ways


def _left_out(weights: Array) -> dict[str, tuple[slice, ...]]:
    every, count = slice(None), weights.shape[1]
    parts: dict[str, tuple[slice, ...]] = {}
    if count > 1:
        parts |= {"the last channel": (every, slice(-1, None)), "the first channel": (every, slice(0, 1))}
        for m in (2, 4, 8, 16, 32, 64):
            if count // m and count % m:
                parts[f"the channels after the last whole {m}"] = (every, slice(count // m * m, None))
    for axis, name in ((2, "row"), (3, "column")):
        if weights.ndim == 4 and weights.shape[axis] > 1:
            before = (every,) * axis
            parts |= {f"the first {name}": (*before, slice(0, 1)), f"the last {name}": (*before, slice(-1, None))}
    if weights.ndim == 4 and weights.shape[2] * weights.shape[3] > 1:
        parts |= {"the last tap": (every, every, slice(-1, None), slice(-1, None))}
        parts |= {"the first tap": (every, every, slice(0, 1), slice(0, 1))}
    return parts


def _without(weights: Array, part: tuple[slice, ...], zero: tuple[int, ...]) -> Array:
    changed = weights.copy()
    along = np.array(zero, weights.dtype).reshape([-1, *[1] * (weights.ndim - 1)])
    changed[part] = np.broadcast_to(along, weights.shape)[part]
    return changed
