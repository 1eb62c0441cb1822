"""The picture is fitted to the size in another way: stretched, cropped, letterboxed, elsewhere, on another colour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from qverify.inputs import resize
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "fit"
BOXES = ("letterbox", "letterbox-top-left")
FILLS = (0, 114, 127, 128, 255)


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    own = recipe.wanted.fit
    boxed = own.startswith("letterbox")
    yield from recipe.vary_field("fit", ("stretch", "crop"), "fit")
    if boxed:
        yield from recipe.vary_field("fill", FILLS, "fill of the letterbox")
        yield from recipe.vary_field("fit", BOXES, "fit")
    for fit, fill in product(BOXES, FILLS) if not boxed else ():
        for variant in recipe.with_changes(fit=fit, fill=fill):
            yield f"fit: {fit} filled with {fill} instead of {own}", variant
    if recipe.wanted.roi is None:
        cause = "fit: short side resized to 8/7 of the size, then the centre cropped"
        yield cause, recipe.with_step("picture", RecipeStep("resized, then cropped", _resized_then_cropped))


def _stretched(pixels: Any, width: int, height: int, recipe: Recipe) -> Any:
    size = {"size": (width, height), "source": None}
    return resize.fit_picture(pixels, replace(recipe.wanted, fit="stretch", format="rgb", train="", **size))  # type: ignore[arg-type]


def _resized_then_cropped(pixels: Any, recipe: Recipe) -> Any:
    """Resizes and crops in the ratio of 256 to 224."""
    width, height = recipe.wanted.frame
    rows, columns = pixels.shape[:2]
    ratio = max(width * 8 / 7 / columns, height * 8 / 7 / rows)
    larger = max(width, int(columns * ratio)), max(height, int(rows * ratio))
    whole = _stretched(pixels, *larger, recipe)
    left, top = (larger[0] - width) // 2, (larger[1] - height) // 2
    return whole[top : top + height, left : left + width]
