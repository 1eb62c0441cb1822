"""The picture is resized with another interpolation."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.formats import INTERPOLATIONS
from qverify.inputs.recipe import Recipe

NAME = "interpolation"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    yield from recipe.vary_field("interpolation", INTERPOLATIONS, "interpolation")
