"""The frame is one row or column off."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "off-by-one"
FIX = "check where the first row and column of the frame begin"
WAYS = {  # text: axis, how far
    "one row too low": (0, 1),
    "one row too high": (0, -1),
    "one column too far right": (1, 1),
    "one column too far left": (1, -1),
}
ENDS = ("wrapped around", "the edge repeated", "zero at the edge")


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    for way, (axis, by) in WAYS.items():
        for end in ENDS:
            step = RecipeStep(f"{way}, {end}", partial(_moved, axis=axis, by=by, end=end))
            yield f"off by one: {way}, {end}", recipe.with_step("fitted", step)


def _moved(pixels: Any, _: Recipe, axis: int, by: int, end: str) -> Any:
    moved = np.roll(pixels, by, axis=axis)
    edge = [slice(None)] * pixels.ndim
    edge[axis] = slice(0, 1) if by > 0 else slice(-1, None)
    if end != "wrapped around":
        moved[tuple(edge)] = pixels[tuple(edge)] if end == "the edge repeated" else 0
    return moved
