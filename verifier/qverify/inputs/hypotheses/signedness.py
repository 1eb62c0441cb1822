"""Signed values are stored as unsigned ones or the other way round, cut at the other's limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "signedness"
FIX = "convert values, do not cut them at the type's limits"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    if recipe.wanted.dtype == "uint8":
        yield "signedness: int8, values above 127 as 127", recipe.with_step("elements", RecipeStep("at most 127", _low))
        yield "signedness: int8, values halved to 0..127", recipe.with_step("elements", RecipeStep("halved", _halved))
        return
    yield "signedness: unsigned, negative values as 0", recipe.with_step("elements", RecipeStep("at least 0", _high))
    yield "signedness: the sign dropped", recipe.with_step("elements", RecipeStep("without sign", _bare))


def _low(values: Any, _: Recipe) -> Any:
    return [np.minimum(v, np.uint8(127)) for v in values]


def _halved(values: Any, _: Recipe) -> Any:
    return [v >> 1 for v in values]


def _high(values: Any, _: Recipe) -> Any:
    return [np.maximum(v, v.dtype.type(0)) for v in values]


def _bare(values: Any, _: Recipe) -> Any:
    return [np.abs(v) for v in values]
