"""Every cell of a heatmap counts, not only its peaks."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import is_detector

NAME = "peaks"
FIX = "keep only the cells that none of their 3 x 3 neighbours exceeds (a maximum filter stands for NMS)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if is_detector(recipe) and len(recipe.settings.strides) == 1 and not recipe.settings.anchors:
        for variant in recipe.with_settings(peaks=False):
            yield "peaks: cells that are no peak of 3 x 3 count", variant
