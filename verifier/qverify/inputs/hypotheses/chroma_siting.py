"""Chroma of each 2x2 block is taken from another place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qverify.inputs.colour import SITINGS
from qverify.inputs.formats import YUV420
from qverify.inputs.recipe import Recipe

NAME = "chroma-siting"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    if recipe.wanted.format not in YUV420:
        return
    own = recipe.wanted.colour.without_preset(True)
    for siting in SITINGS:
        if siting != own.siting:
            for variant in recipe.with_changes(colour=replace(own, siting=siting)):
                yield f"chroma siting: {siting} instead of {own.siting}", variant
