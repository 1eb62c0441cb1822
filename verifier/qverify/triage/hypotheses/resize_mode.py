"""Resize computes its source positions with another coordinate mode or nearest mode, or off by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "resize-mode"
OPS = ("resize_nearest", "resize_linear")
Positions = Callable[[int, int], Array]
COORDINATES: dict[str, Positions] = {
    "half_pixel": lambda size, out: (np.arange(out) + 0.5) * size / out - 0.5,
    "asymmetric": lambda size, out: np.arange(out) * size / out,
    "align_corners": lambda size, out: np.arange(out) * (size - 1) / max(out - 1, 1),
    "half_pixel rounded to a source of its own (+0.5)": lambda size, out: (np.arange(out) + 0.5) * size / out,
}
NEAREST: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op == "resize_nearest":
        for coordinates, positions in COORDINATES.items():
            for mode, rounded in NEAREST.items():
                yield FaultVariant(
                    f"resize: {coordinates}, {mode}", partial(_nearest, positions=positions, rounded=rounded)
                )
        for by in (-1, 1):
            yield FaultVariant(f"resize: source {abs(by)} too {'far' if by > 0 else 'early'}", partial(_off, by=by))
    elif case.last.op == "resize_linear":
        for coordinates, positions in COORDINATES.items():
            yield FaultVariant(f"resize: {coordinates}", partial(_linear, positions=positions))
            for mode, rounded in NEAREST.items():
                compute = partial(_linear, positions=positions, rounded=rounded)
                yield FaultVariant(f"resize: nearest ({coordinates}, {mode}) instead of linear", compute)
        yield FaultVariant(
            "resize: cut off instead of rounded", lambda case: case.recompute(case.change_words(truncate=1))
        )


def _sizes(case: Case) -> list[tuple[int, int]]:
    """Returns (size of the input, size of the output) for every axis."""
    return list(zip(case.graph.spec(case.last.inputs[0] or "").shape, case.spec.shape, strict=True))


def _nearest(case: Case, positions: Positions, rounded: Callable[[Array], Array]) -> Array:
    parts = []
    for size, out in _sizes(case):
        places = np.arange(size) if size == out else rounded(positions(size, out))
        parts.append(np.clip(places, 0, size - 1))
    return case.recompute(UnitChange(constants={case.last.inputs[1] or "": np.concatenate(parts).astype(np.int32)}))


def _off(case: Case, by: int) -> Array:
    name = case.last.inputs[1] or ""
    index, start, parts = case.graph.constants[name], 0, []
    for size, out in _sizes(case):
        part = index[start : start + out].astype(np.int64)
        parts.append(part if size == out else np.clip(part + by, 0, size - 1))
        start += out
    return case.recompute(UnitChange(constants={name: np.concatenate(parts).astype(np.int32)}))


def _linear(case: Case, positions: Positions, rounded: Callable[[Array], Array] | None = None) -> Array:
    indices, weights = [], []
    for size, out in _sizes(case)[2:]:
        p = np.clip(positions(size, out), 0, size - 1)
        p = p if rounded is None else rounded(p)
        first = np.floor(p).astype(np.int32)
        second = np.minimum(first + 1, size - 1)
        share = p - first
        indices += [first, second]
        weights += [1 - share, share]
    _, index, weight = case.last.inputs
    constants = {index or "": np.concatenate(indices), weight or "": np.concatenate(weights).astype(np.float32)}
    return case.recompute(UnitChange(constants=constants))
