"""Boxes are not clipped, or to other limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qverify.decoders.parts.results import Boxes
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import has_rows, is_detector

NAME = "clip"
FIX = "clip boxes once, in the picture, to 0 and its width and height"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if not has_rows(recipe):
        return
    for variant in recipe.with_settings(clip=not recipe.settings.clip):
        yield f"clip: boxes are {'not ' * recipe.settings.clip}clipped to the picture", variant
    size, frame = recipe.evidence.size, recipe.settings.frame
    limits = np.array(size if frame == (0, 0) else frame, np.float64)
    if size != (0, 0):
        yield "clip: to width - 1 and height - 1", recipe.with_step("placed", Step("limit - 1", _within(limits - 1)))
        if frame != (0, 0) and is_detector(recipe):
            before = recipe.with_step("found", Step("limits of the input", _within(np.array(size, np.float64))))
            yield "clip: to the input, before the letterbox is undone", before
            for variant in before.with_settings(clip=False):
                yield "clip: to the input only, before the letterbox is undone", variant
        for variant in recipe.with_settings(clip=False):
            exchanged = variant.with_step("placed", Step("limits exchanged", _within(limits[::-1])))
            yield "clip: width and height exchanged", exchanged
            yield (
                "clip: negative coordinates only",
                variant.with_step("placed", Step("limit 0", _within(np.full(2, np.inf)))),
            )


def _within(limits: np.ndarray) -> Any:
    def apply(found: Boxes, _: OutputRecipe) -> Boxes:
        return replace(found, boxes=np.clip(found.boxes.reshape(-1, 2, 2), 0.0, limits).reshape(-1, 4))

    return apply
