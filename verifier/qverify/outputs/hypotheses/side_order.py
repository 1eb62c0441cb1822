"""The four distances of a box from its cell (left, top, right, bottom) are taken in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.selection import Candidates
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import find_cells, is_detector, with_anchor_boxes

Array = npt.NDArray[Any]
NAME = "side-order"
FIX = "the distances are left, top, right, bottom: x1, y1 are subtracted from the cell's centre, x2, y2 added"
ORDERS = {
    "top, left, bottom, right": (1, 0, 3, 2),
    "right, bottom, left, top": (2, 3, 0, 1),
    "left, right, top, bottom": (0, 2, 1, 3),
}


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if not is_detector(recipe) or recipe.settings.anchors or recipe.settings.background >= 0:
        return
    for said, order in ORDERS.items():
        yield f"side order: {said}", with_anchor_boxes(recipe, said, _ordered(order))


def _ordered(order: tuple[int, ...]) -> Any:
    def apply(boxes: Array, index: Array, recipe: OutputRecipe, candidates: Candidates) -> Array:
        cells = find_cells(index, candidates, recipe.settings)
        if cells is None:
            return boxes
        centre = (cells[0] + 0.5) * cells[1][:, None]
        away = np.concatenate([centre - boxes[:, :2], boxes[:, 2:] - centre], axis=1)[:, order]
        return np.concatenate([centre - away[:, :2], centre + away[:, 2:]], axis=1)

    return apply
