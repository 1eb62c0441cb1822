"""The picture is resized as bytes instead of float32, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.recipe import Recipe

NAME = "resize-dtype"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    yield from recipe.vary_field("resize_dtype", ("uint8", "float32"), "resize dtype")
