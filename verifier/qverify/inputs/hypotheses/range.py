"""Values have full range instead of limited range, or the other way round, or are compressed twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qverify.inputs.colour import RANGES
from qverify.inputs.formats import YUV420
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "range"
FIX = "compress or expand once, in one place"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    wanted = recipe.wanted
    if wanted.format in YUV420 or wanted.format.startswith("yuv444"):
        own = wanted.colour.without_preset(wanted.format in YUV420)
        for name in RANGES:
            if name != own.range:
                for variant in recipe.with_changes(colour=replace(own, range=name)):
                    yield f"range: {name} instead of {own.range}", variant
        if wanted.format in YUV420:
            cause = "range: luma and chroma compressed to 16..235, 16..240 once more"
            yield cause, recipe.with_step("elements", RecipeStep("compressed", _compressed_yuv))
    cause = "range: RGB compressed to 16..235"
    yield cause, recipe.with_step("fitted", RecipeStep("RGB compressed", lambda x, _: _kept(x * (219 / 255) + 16, x)))
    cause = "range: RGB of 16..235 expanded to 0..255"
    yield cause, recipe.with_step("fitted", RecipeStep("RGB expanded", lambda x, _: _kept((x - 16.0) * (255 / 219), x)))


def _kept(values: Any, pixels: Any) -> Any:
    """Returns the values clipped to 0..255, in the pixels' dtype."""
    clipped = values.clip(0, 255)
    return (np.rint(clipped) if pixels.dtype == np.uint8 else clipped).astype(pixels.dtype)


def _compressed_yuv(values: Any, _: Recipe) -> Any:
    y, u, v = values
    chroma = [_kept((c - 128.0) * (224 / 255) + 128, c) for c in (u, v)]
    return [_kept(y * (219 / 255) + 16, y), *chroma]
