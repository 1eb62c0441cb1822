"""YUV is computed with another matrix, or with another mode as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qverify.inputs.colour import PRESETS, Colour
from qverify.inputs.formats import YUV420
from qverify.inputs.recipe import Recipe

NAME = "matrix"
MATRICES = ("bt601", "bt709", "sigmastar")  # horizon's is bt601's


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    wanted = recipe.wanted
    coarse = wanted.format in YUV420
    if not coarse and not wanted.format.startswith("yuv444"):
        return
    own = wanted.colour.without_preset(coarse)
    same = "bt601" if own.mode == "horizon" or (coarse and wanted.colour.mode == "opencv") else wanted.colour.mode
    for mode in MATRICES:
        if mode != same:
            for variant in recipe.with_changes(colour=replace(own, mode=mode)):
                yield f"matrix: {mode} instead of {same}, the rest as described", variant
    for mode in PRESETS:
        if mode != wanted.colour.mode:
            for variant in recipe.with_changes(colour=Colour.preset(mode)):
                yield (
                    f"matrix: mode {mode} instead of {wanted.colour.mode}, with its range, siting and rounding",
                    variant,
                )
