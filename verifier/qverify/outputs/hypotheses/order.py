"""The classes are sorted by rising score, so that the lowest ones are written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import take_rows, with_rows

NAME = "order"
FIX = "sort by falling score before the best ones are taken"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if recipe.evidence.kind != "classes" or recipe.rows:  # what is left out, is left out after they are sorted
        return
    most = recipe.settings.top or None
    whole = next(iter(recipe.with_settings(top=0)), recipe)
    lowest = with_rows(whole, "lowest", lambda r: take_rows(r, np.argsort(r.scores, kind="stable")[:most]))
    yield "order: the lowest results, the lowest first", lowest
