"""Rejects recipes by comparing some rows of the captured bytes, and estimates distances from some thousands of
elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.inputs import buffers
from qverify.inputs.recipe import Recipe
from qverify.inputs.reproduction import Reproduction, select_rows
from qverify.inputs.residual import undo_byte_steps

Array = npt.NDArray[Any]
PAIRS = 12  # number of pairs of rows that are compared, from top to bottom
SAMPLED_ELEMENTS = 4096


@dataclass(slots=True)
class Sample:
    """A sample of captured bytes. Distances are the mean absolute difference divided by the spread of the captured
    elements, so that distances of different element types can be compared."""

    captured: bytes
    rows: dict[Any, list[Array] | None] = field(default_factory=dict)
    spreads: dict[Any, float] = field(default_factory=dict)

    def distance(self, recipe: Recipe, reproduction: Reproduction) -> float | None:
        """Returns the distance of the sampled rows, or None if they are equal or cannot be sampled, so that all bytes
        must be compared."""
        high = recipe.wanted.frame[1]
        rowwise = all(s.rowwise for s in recipe.elements) and all(s.undo is not None for s in recipe.bytes)
        if reproduction.start.stage == "bytes" or not rowwise or high < 4 * PAIRS:
            return None
        pairs = np.unique(np.linspace(0, high // 2 - 1, PAIRS).astype(np.int64))
        theirs = self._captured_rows(recipe, pairs)
        if theirs is None:
            return None
        ours = reproduction.make_rows(recipe, pairs)
        if all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True)):
            return None
        a, b = (np.concatenate([p.reshape(-1) for p in parts]) for parts in (ours, theirs))
        return self._measure_away(a, b, recipe)

    def whole_distance(self, recipe: Recipe, reproduction: Reproduction) -> float:
        """Returns the distance over the whole buffer, which is infinite for buffers of different sizes."""
        ours, theirs = reproduction.make_bytes(recipe), self.captured
        back = undo_byte_steps(theirs, recipe)
        if back is not None:
            ours, theirs = reproduction.make_buffer(recipe), back
        if len(ours) != len(theirs):
            return np.inf
        dtype = np.dtype(recipe.wanted.dtype).newbyteorder("<")
        whole = len(ours) // dtype.itemsize * dtype.itemsize
        return self._measure_away(np.frombuffer(ours[:whole], dtype), np.frombuffer(theirs[:whole], dtype), recipe)

    def _captured_rows(self, recipe: Recipe, pairs: Array) -> list[Array] | None:
        """Returns the captured rows, or None if the bytes are not a buffer of this description."""
        wanted = recipe.wanted
        key = recipe.bytes, wanted.dtype, wanted.format, wanted.layout, tuple(wanted.planes)
        if key not in self.rows:
            back = undo_byte_steps(self.captured, recipe)
            try:
                values = buffers.unarrange_planes(buffers.unpack(back or b"", wanted), wanted)
                self.rows[key] = [np.ascontiguousarray(p) for p in select_rows(values, pairs)]
            except UsageError:
                self.rows[key] = None
        return self.rows[key]

    def _measure_away(self, ours: Array, theirs: Array, recipe: Recipe) -> float:
        step = max(1, ours.size // SAMPLED_ELEMENTS) | 1  # odd and not a multiple of 3: samples every channel
        some = slice(None, None, step if step == 1 or step % 3 else step + 2)
        a, b = ours[some].astype(np.float64), theirs[some].astype(np.float64)
        key = recipe.bytes, ours.dtype
        if key not in self.spreads:
            spread = float(np.abs(b - np.median(b)).mean()) if b.size else 0.0
            self.spreads[key] = spread if np.isfinite(spread) and spread > 0 else 1.0
        away = float(np.abs(a - b).mean()) / self.spreads[key] if a.size else np.inf
        return away if np.isfinite(away) else np.inf
