"""Measures the distance of captured bytes from those of a recipe, and finds the first element that differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.inputs import buffers
from qverify.inputs.description import Description
from qverify.inputs.formats import YUV420
from qverify.inputs.recipe import Recipe

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Residual:
    """The distance of two buffers. It is measured over the valid elements if both have the description's size, else
    over all bytes.

    Attributes:
        max_abs, mean_abs: largest and mean absolute difference.
        spread: mean distance of the captured elements from their median.
        equal: share of equal bytes.
        first: the first difference, as plane, row, column and channel, or as a byte outside of planes.
    """

    max_abs: float
    mean_abs: float
    spread: float
    equal: float
    first: dict[str, int | str]

    @property
    def unrelated(self) -> bool:
        """Whether the distance is as large as that of an unrelated picture."""
        return not self.mean_abs <= self.spread / 2


def measure_residual(computed: bytes, captured: bytes, wanted: Description) -> Residual:
    """Returns the distance of two buffers of the same size."""
    ours, theirs = _split_parts(computed, wanted), _split_parts(captured, wanted)
    away = [_measure_away(a, b) for a, b in zip(ours, theirs, strict=True)]
    count = sum(a.size for a in away)
    same = np.frombuffer(computed, np.uint8) == np.frombuffer(captured, np.uint8)
    return Residual(
        max((float(a.max()) for a in away if a.size), default=0.0),
        sum(float(a.sum()) for a in away) / max(count, 1),
        _measure_spread(np.concatenate([p.reshape(-1) for p in theirs])),
        float(same.mean()),
        _find_first(ours, theirs, wanted) if len(computed) == wanted.size_bytes else {"byte": int(np.argmin(same))},
    )


def undo_byte_steps(captured: bytes, recipe: Recipe) -> bytes | None:
    """Returns the buffer before the recipe's steps on bytes, or None if one of them cannot be undone."""
    for step in reversed(recipe.bytes):
        if step.undo is None:
            return None
        captured = step.undo(captured, recipe)
    return captured


def _split_parts(data: bytes, wanted: Description) -> list[Array]:
    if len(data) == wanted.size_bytes:
        return buffers.unpack(data, wanted)
    return [np.frombuffer(data, np.uint8)]


def _measure_away(a: Array, b: Array) -> Array:
    """Returns |a - b|, which is infinite where only one of them is NaN."""
    with np.errstate(all="ignore"):
        distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    distance[np.isnan(distance)] = np.inf
    distance[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return np.asarray(distance)


def _measure_spread(values: Array) -> float:
    with np.errstate(all="ignore"):
        real = values.astype(np.float64)
        return float(np.abs(real - np.median(real)).mean())


def _bits(a: Array) -> Array:
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")


def _find_first(ours: list[Array], theirs: list[Array], wanted: Description) -> dict[str, int | str]:
    for plane, a, b in zip(wanted.planes, ours, theirs, strict=True):
        differing = np.flatnonzero(_bits(a) != _bits(b))  # -0.0 is not 0.0
        if differing.size:
            place = [int(i) for i in np.unravel_index(differing[0], a.shape)]
            names = ("row", "column", "channel")
            if wanted.layout == "NCHW" and wanted.format not in YUV420:
                names = ("channel", "row", "column")
            return {"plane": plane.name, **dict(zip(names, place, strict=False))}
    return {"plane": "padding"}
