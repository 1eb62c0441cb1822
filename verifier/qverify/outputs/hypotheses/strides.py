"""The stride of another level, or one stride for all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.selection import Candidates, from_centres
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import find_cells, is_detector, with_anchor_boxes

Array = npt.NDArray[Any]
NAME = "strides"
FIX = "multiply each level by its own stride: input size / size of the level's map"
MOST_LEVELS = 4


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    own = recipe.settings.strides
    if not is_detector(recipe):
        return
    choices = (
        {
            order: f"{', '.join(map(str, order))} for the levels of {', '.join(map(str, own))}"
            for order in permutations(own)
        }
        if len(own) <= MOST_LEVELS
        else {}
    )
    choices |= {(one,) * len(own): f"{one} for every level" for one in dict.fromkeys((*own, 1))}
    choices |= {tuple(s * 2 for s in own): "twice as large", tuple(s / 2 for s in own): "half as large"}  # type: ignore[misc]
    for order in list(permutations(own))[1:] if len(own) <= MOST_LEVELS else []:
        for variant in recipe.with_settings(strides=order):
            yield f"strides: grids and strides in the order {', '.join(map(str, order))}", variant
    for wrong, text in choices.items():
        if wrong != own:
            yield f"strides: {text}", _with(recipe, wrong, text)
    for part, of_centre in (("centre", True), ("size", False)) if not recipe.settings.anchors else ():
        text = f"the {part} is not multiplied by the stride"
        yield f"strides: {text}", with_anchor_boxes(recipe, f"strides {text}", partial(_in_cells, of_centre=of_centre))


def _in_cells(boxes: Array, index: Array, recipe: OutputRecipe, candidates: Candidates, of_centre: bool) -> Array:
    """Returns boxes whose centre, or else their size, is in cells."""
    cells = find_cells(index, candidates, recipe.settings)
    if cells is None:
        return boxes
    centre, extent = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    stride = cells[1][:, None]
    return from_centres(centre / stride, extent) if of_centre else from_centres(centre, extent / stride)


def _with(recipe: OutputRecipe, wrong: tuple[float, ...], text: str) -> OutputRecipe:
    def factor(index: Array, own: OutputRecipe, candidates: Candidates) -> Array | None:
        cells = find_cells(index, candidates, own.settings)
        if cells is None:
            return None
        table = dict(zip(own.settings.strides, wrong, strict=True))
        return np.array([table[int(s)] / s for s in cells[1].tolist()])

    def boxes(values: Array, index: Array, own: OutputRecipe, candidates: Candidates) -> Array:
        scale = factor(index, own, candidates)
        if scale is None:
            return values
        if not own.settings.anchors:
            return values * scale[:, None]
        centre, half = (values[:, :2] + values[:, 2:]) / 2 * scale[:, None], (values[:, 2:] - values[:, :2]) / 2
        return np.concatenate([centre - half, centre + half], axis=1)

    def points(values: Array, index: Array, own: OutputRecipe, candidates: Candidates) -> Array:
        scale = factor(index, own, candidates)
        return values if scale is None else values * scale[:, None, None]

    return with_anchor_boxes(recipe, f"strides {text}", boxes, points)
