"""The labels of a mask: another number for the first class, or turned."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.decoders.parts.settings import RESIZES
from qverify.outputs.recipe import OutputRecipe, Step

NAME = "labels"
FIX = (
    "number the classes of a mask from 0, keep its rows and columns, and cut the padding before it becomes the picture"
)


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if recipe.evidence.kind != "mask":
        return
    for text, change in CHANGES.items():
        yield f"labels: {text}", recipe.with_step("rows", Step(f"{NAME} {text}", partial(_apply, change=change)))
    yield from recipe.vary("score", (0.0, 0.25, 0.3, 0.5, 0.7), "labels: threshold")
    yield from recipe.vary("resize", RESIZES, "labels: resize")
    for through in (True, False):
        said = "to the input's size, and its labels from there to the picture's" if through else "in one step"
        for variant in recipe.with_settings(through_input=through):
            yield f"labels: resized {said}", variant
    for variant in recipe.with_settings(background=0):
        text = "labels: class 0 left out of the highest value, the number corrected"
        yield text, variant.with_step("rows", Step(f"{NAME} {text}", partial(_apply, change=lambda v: v + 1)))
    if recipe.settings.frame != (0, 0) and recipe.settings.fit != "stretch":
        for variant in recipe.with_settings(fit="stretch", through_input=True):
            yield "labels: the padding is not cut, the whole input becomes the picture", variant
    for fit in ("stretch", "letterbox", "letterbox-top-left"):
        for variant in recipe.with_settings(fit=fit):
            yield f"labels: the padding is {CUT[fit]}", variant
    if recipe.settings.frame not in ((0, 0), recipe.evidence.size):
        for variant in recipe.with_settings(frame=recipe.evidence.size, fit="stretch"):
            yield "labels: left in the size of the input", variant
    yield from recipe.vary("activation", ("none", "sigmoid"), "labels: activation")


def _apply(values: Any, _: OutputRecipe, change: Any) -> Any:
    return change(values)


CUT = {
    "stretch": "not cut, the map becomes the picture in one step",
    "letterbox": "cut on both sides",
    "letterbox-top-left": "cut at the right and at the bottom only",
}
CHANGES: dict[str, Any] = {
    "+1": lambda v: v + 1,
    "-1": lambda v: v - 1,
    "-1, in uint8": lambda v: (v - 1) & 255,
    "times 255": lambda v: v * 255,
    "rows and columns exchanged": lambda v: v.T,
    "flipped left to right": lambda v: v[:, ::-1],
    "flipped top to bottom": lambda v: v[::-1],
    "columns one after another": lambda v: v.T.reshape(v.shape),
    "0 and 1 exchanged": lambda v: np.where(v == 0, 1, np.where(v == 1, 0, v)),
}
