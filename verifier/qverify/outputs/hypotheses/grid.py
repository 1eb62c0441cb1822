"""The grid of cells is moved by half a cell or a whole one, or its x and y are exchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.selection import Candidates
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import find_cells, is_detector, with_anchor_boxes

Array = npt.NDArray[Any]
NAME = "grid"
FIX = "use the cell's centre or corner as the network's family defines it (yolov8: cell + 0.5, yolox: cell)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if recipe.evidence.kind == "keypoints":
        yield from recipe.vary("grid_offset", (0.5, -0.5, 1.0, -1.0), "grid: offset of the cell")
    if not is_detector(recipe):
        return
    for away in (0.5, -0.5, 1.0, -1.0):
        text = f"grid: moved by {away:+g} cell"
        yield text, _with(recipe, text, lambda cells, a=away: np.full(cells.shape, a))
    text = "grid: x and y of the cell exchanged"
    yield text, _with(recipe, text, lambda cells: cells[:, ::-1] - cells)
    text = "grid: width and height of the map exchanged (index // height)"
    yield text, _with_shape(recipe, text)
    text = "grid: the cell is not added"
    yield text, _with(recipe, text, lambda cells: -cells)


def _with(recipe: OutputRecipe, text: str, move: Any) -> OutputRecipe:
    def away(index: Array, own: OutputRecipe, candidates: Candidates) -> Array | None:
        cells = find_cells(index, candidates, own.settings)
        return None if cells is None else move(cells[0]) * cells[1][:, None]

    def boxes(values: Array, index: Array, own: OutputRecipe, candidates: Candidates) -> Array:
        moved = away(index, own, candidates)
        return values if moved is None else values + np.tile(moved, 2)

    def points(values: Array, index: Array, own: OutputRecipe, candidates: Candidates) -> Array:
        moved = away(index, own, candidates)
        return values if moved is None else values + moved[:, None]

    return with_anchor_boxes(recipe, text, boxes, points)


def _with_shape(recipe: OutputRecipe, text: str) -> OutputRecipe:
    def away(index: Array, own: OutputRecipe, candidates: Candidates) -> Array | None:
        cells = find_cells(index, candidates, own.settings)
        if cells is None:
            return None
        corners, strides = cells
        wide, high = (np.ceil(side / strides) for side in candidates.size)
        place = corners[:, 1] * wide + corners[:, 0]
        return (np.stack([place % high, place // high], axis=1) - corners) * strides[:, None]

    def boxes(values: Array, index: Array, own: OutputRecipe, candidates: Candidates) -> Array:
        moved = away(index, own, candidates)
        return values if moved is None else values + np.tile(moved, 2)

    def points(values: Array, index: Array, own: OutputRecipe, candidates: Candidates) -> Array:
        moved = away(index, own, candidates)
        return values if moved is None else values + moved[:, None]

    return with_anchor_boxes(recipe, text, boxes, points)
