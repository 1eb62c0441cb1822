"""The dimensions are stored in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qverify.inputs.formats import LAYOUTS, YUV420
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "layout"
FIX = "store rows one after another"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    wanted = recipe.wanted
    if wanted.format not in YUV420 and wanted.channels > 1:
        yield from recipe.vary_field("layout", LAYOUTS, "layout")
    name = "HW" if wanted.format in YUV420 or wanted.channels == 1 else wanted.layout[1:]
    other = name.replace("HW", "WH")
    yield (
        f"layout: {other} instead of {name}, columns stored one after another",
        recipe.with_step("elements", RecipeStep("columns before rows", _columns, rowwise=False)),
    )


def _columns(values: Any, _: Recipe) -> Any:
    """Returns the memory order of the transposed array, in the shape of the original."""
    return [np.swapaxes(v, 0, 1).reshape(v.shape) for v in values]
