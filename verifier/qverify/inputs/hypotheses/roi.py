"""The whole picture is used instead of a part of it."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.recipe import Recipe

NAME = "roi"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    for variant in recipe.with_changes(roi=None):
        yield "roi: the whole picture", variant
