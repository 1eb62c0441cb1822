"""The exponential function of the size is missing, or boxes are decoded with the numbers in another order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.selection import Candidates, from_centres
from qverify.decoders.ssd import make_priors
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import find_cells, is_detector, with_anchor_boxes

Array = npt.NDArray[Any]
NAME = "extent"
FIX = "width and height are exp(value) times the stride (or the prior, the anchor)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if recipe.evidence.kind == "plain boxes":
        yield from recipe.vary(
            "unclip", (1.0, 1.2, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 3.0), "extent: growth of regions"
        )
    if not is_detector(recipe):
        return
    for said, added in (("is missing", 0.0), ("is missing: 1 + value for exp(value)", 1.0)):
        step = with_anchor_boxes(recipe, f"no exp {added}", partial(_without_exp, added=added))
        yield f"extent: the exponential function {said}", step
    yield from recipe.vary("order", ("xywh", "yxhw"), "extent: order of the decoded numbers")
    yield from recipe.vary("shares", (True, False), "extent: boxes are shares of the input")
    wide, high = recipe.evidence.size
    if recipe.settings.shares and wide != high:
        yield "extent: shares times height and width of the input", with_anchor_boxes(recipe, "h, w", _by_other_side)
    for variant in recipe.with_settings(box_activation="none"):
        yield "extent: the sigmoid of the box is missing", variant
    for variant in recipe.with_settings(box_activation="sigmoid"):
        yield "extent: the sigmoid of the box is applied, or once too often", variant


def _without_exp(boxes: Array, index: Array, recipe: OutputRecipe, candidates: Candidates, added: float) -> Array:
    unit = _find_unit(index, recipe, candidates)
    if unit is None:
        return boxes
    extent = boxes[:, 2:] - boxes[:, :2]
    return from_centres((boxes[:, :2] + boxes[:, 2:]) / 2, (functions64.log(extent / unit) + added) * unit)


def _by_other_side(boxes: Array, _index: Array, _recipe: OutputRecipe, candidates: Candidates) -> Array:
    wide, high = candidates.size
    return boxes * np.array([high / wide, wide / high, high / wide, wide / high])


def _find_unit(index: Array, recipe: OutputRecipe, candidates: Candidates) -> Array | None:
    """Returns what exp is multiplied by (K, 2), None if it is not known."""
    settings = recipe.settings
    if len(settings.priors) or settings.background >= 0:
        priors = make_priors(settings)
        return (
            priors[index][:, 2:] * np.array(settings.size, np.float64)
            if len(priors) == len(candidates.values)
            else None
        )
    cells = find_cells(index, candidates, settings)
    return None if cells is None or settings.anchors else np.tile(cells[1][:, None], (1, 2))
