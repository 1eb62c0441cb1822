"""Resized as bytes where float32 is meant, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.recipe import Recipe

NAME = "resize-dtype"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    yield from recipe.vary_field("resize_dtype", ("uint8", "float32"), "resize dtype")
