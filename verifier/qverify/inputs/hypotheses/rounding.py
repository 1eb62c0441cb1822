"""Values are rounded by another rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qverify.inputs.colour import ROUNDINGS
from qverify.inputs.formats import REAL, YUV420
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "rounding"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    wanted = recipe.wanted
    if wanted.format in REAL:
        if wanted.dtype != "float32":
            yield from recipe.vary_field("rounding", ROUNDINGS, "rounding of quantizing")
        return
    if wanted.format in YUV420 or wanted.format.startswith("yuv444"):
        yield from _colour_mistakes(recipe)
    if wanted.resize_dtype == "float32":
        cause = "rounding after the resize: truncate instead of half-even"
        yield cause, recipe.with_step("fitted", RecipeStep("truncated", _truncated))


def _colour_mistakes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    own = recipe.wanted.colour
    out = own.without_preset(recipe.wanted.format in YUV420)
    name = "OpenCV's fixed point" if out != own else own.rounding
    for rounding in ROUNDINGS:
        if out != own or rounding != own.rounding:
            for variant in recipe.with_changes(colour=replace(out, rounding=rounding)):
                yield f"rounding of colour: {rounding} instead of {name}", variant


def _truncated(pixels: Any, _: Recipe) -> Any:
    return np.trunc(pixels).clip(0, 255).astype(np.uint8)
