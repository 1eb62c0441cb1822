"""The background class is taken for a result, or a class for the background."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import has_rows, is_detector, with_rows

NAME = "background"
FIX = "leave out the background class of a network that has one, and no other"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if not is_detector(recipe) and recipe.evidence.kind not in ("classes", "mask"):
        return
    own = recipe.settings.background
    for variant in recipe.with_settings(background=-1):
        yield "background: counts as a class", variant
        if has_rows(recipe) and own == 0:
            yield (
                "background: counts as a class, and as number 0 (the other classes one later)",
                with_rows(variant, "background 0", lambda r: Wanted(r.numbers, r.scores, r.classes + 1, r.unit)),
            )
    if own < 0:
        for variant in recipe.with_settings(background=0):
            yield "background: class 0 is taken for it", variant
