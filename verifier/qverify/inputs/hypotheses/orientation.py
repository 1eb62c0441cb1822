"""The frame is flipped, turned or transposed, before the resize or after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.inputs.recipe import Recipe, RecipeStep, Stage

NAME = "orientation"
FIX = "check EXIF rotation and the camera's mirror and flip settings"
WAYS: dict[str, Callable[[Any], Any]] = {
    "flipped left to right": lambda x: x[:, ::-1],
    "flipped upside down": lambda x: x[::-1],
    "turned by 180 degrees": lambda x: x[::-1, ::-1],
}
SIDEWAYS: dict[str, Callable[[Any], Any]] = {
    "turned by 90 degrees clockwise": lambda x: np.rot90(x, -1),
    "turned by 90 degrees counter-clockwise": np.rot90,
    "transposed": lambda x: np.swapaxes(x, 0, 1),
}


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    width, height = recipe.wanted.frame
    square = SIDEWAYS if width == height else {}
    yield from _at("picture", "before the resize", {**WAYS, **SIDEWAYS}, recipe)
    yield from _at("fitted", "after the resize", {**WAYS, **square}, recipe)


def _at(stage: Stage, when: str, ways: dict[str, Callable[[Any], Any]], recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    for name, way in ways.items():
        step = RecipeStep(name, partial(_turned, way=way))
        yield f"orientation: {name}, {when}", recipe.with_step(stage, step)


def _turned(pixels: Any, _: Recipe, way: Callable[[Any], Any]) -> Any:
    return np.ascontiguousarray(way(pixels))
