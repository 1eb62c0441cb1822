"""The picture is resized with another library, which computes other values with the interpolation of the same name."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.formats import LIBRARIES
from qverify.inputs.recipe import Recipe

NAME = "resize-library"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    yield from recipe.vary_field("library", LIBRARIES, "resize library")
