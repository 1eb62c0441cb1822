"""Fitted to the size another way: stretched, cropped, letterboxed, at another place, on another colour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qverify.inputs import picture
from qverify.inputs.recipe import Recipe, Step

NAME = "fit"
FILLS = (0, 114, 127, 128, 255)


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    own = recipe.wanted.fit
    yield from recipe.choices("fit", ("stretch", "crop"), "fit")
    if own == "letterbox":
        yield from recipe.choices("fill", FILLS, "fill of the letterbox")
    else:
        for fill in FILLS:
            for one in recipe.described(fit="letterbox", fill=fill):
                yield f"fit: letterbox filled with {fill} instead of {own}", one
    for fill in {0, 114, recipe.wanted.fill} if own == "letterbox" else ():
        step = Step(f"at the top left on {fill}", partial(_at_top_left, fill=fill))
        yield f"fit: letterbox at the top left, not centred, filled with {fill}", recipe.with_step("picture", step)
    said = "fit: short side resized to 8/7 of the size, then the centre cropped"
    yield said, recipe.with_step("picture", Step("resized, then cropped", _resized_then_cropped))


def _stretched(pixels: Any, width: int, height: int, recipe: Recipe) -> Any:
    return picture.fitted(pixels, replace(recipe.wanted, size=(width, height), fit="stretch", format="rgb", train=""))


def _at_top_left(pixels: Any, recipe: Recipe, fill: int) -> Any:
    width, height = recipe.wanted.size
    ratio = min(width / pixels.shape[1], height / pixels.shape[0])
    inner = max(1, round(pixels.shape[1] * ratio)), max(1, round(pixels.shape[0] * ratio))
    small = _stretched(pixels, *inner, recipe)
    whole = np.full((height, width, pixels.shape[2]), fill, small.dtype)
    whole[: inner[1], : inner[0]] = small
    return whole


def _resized_then_cropped(pixels: Any, recipe: Recipe) -> Any:
    """As 256 and 224 are used together."""
    width, height = recipe.wanted.size
    rows, columns = pixels.shape[:2]
    ratio = max(width * 8 / 7 / columns, height * 8 / 7 / rows)
    larger = max(width, int(columns * ratio)), max(height, int(rows * ratio))
    whole = _stretched(pixels, *larger, recipe)
    left, top = (larger[0] - width) // 2, (larger[1] - height) // 2
    return whole[top : top + height, left : left + width]
