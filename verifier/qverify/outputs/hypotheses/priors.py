"""Variances of SSD left out, exchanged or applied twice; priors in another order; the background class as a result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qverify.decoders.parts.settings import Priors
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import is_detector

NAME = "priors"
FIX = "multiply the offsets by the variances that the network was trained with, with its priors in their order"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    settings = recipe.settings
    if not is_detector(recipe) or (settings.background < 0 and not len(settings.priors)):
        return
    one, two = settings.variances
    choices = {
        "left out": (1.0, 1.0),
        "of the size left out": (one, 1.0),
        "of the centre left out": (1.0, two),
        "exchanged": (two, one),
        "applied twice": (one * one, two * two),
        "divided by": (1 / one, 1 / two),
    }
    for said, pair in choices.items():
        for variant in recipe.with_settings(variances=pair):
            yield f"priors: variances {said}", variant
    if not len(settings.priors):
        return
    values = settings.priors.values
    levels = _split(values)
    orders = {
        "levels in reverse order": np.concatenate(levels[::-1]),
        "width and height exchanged": values[:, [0, 1, 3, 2]],
        "x and y exchanged": values[:, [1, 0, 3, 2]],
        "x and y of the centre exchanged": values[:, [1, 0, 2, 3]],
        "in reverse order": values[::-1],
    }
    for said, changed in orders.items():
        for variant in recipe.with_settings(priors=Priors(changed)):
            yield f"priors: {said}", variant


def _split(values: np.ndarray) -> list[np.ndarray]:
    """Returns the priors of each level: where the rows of cells begin again, or a cell has priors for more than one."""
    starts = np.flatnonzero(np.diff(values[:, 1]) < -1e-9) + 1
    levels = np.split(values, starts)
    cells = np.flatnonzero((np.diff(values[:, :2], axis=0) != 0).any(axis=1)) + 1
    each = np.diff([0, *cells, len(values)])
    last, before = int(each[-1]), int(each[-2]) if len(each) > 1 else 0
    if len(levels[-1]) == last and before and last > before and last % before == 0:
        levels[-1:] = np.split(levels[-1], last // before)
    return levels
