"""Text: another blank, or a list of characters that begins elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.decoders.parts.settings import COLLAPSES
from qverify.outputs.recipe import OutputRecipe

NAME = "characters"
FIX = "use the list of characters that the network was trained with, and its blank (first or last class)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    settings = recipe.settings
    if recipe.evidence.kind != "text":
        return
    letters = settings.characters
    for blank in sorted({0, len(letters)} - {settings.blank}):
        for variant in recipe.with_settings(blank=blank):
            yield f"characters: the blank is class {blank}", variant
    yield from recipe.vary("collapse", COLLAPSES, "characters: what is left out")
    for said, moved in (("too early", letters[1:] + letters[:1]), ("too late", letters[-1:] + letters[:-1])):
        for variant in recipe.with_settings(characters=moved):
            yield f"characters: the list begins one class {said}", variant
