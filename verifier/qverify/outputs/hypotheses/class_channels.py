"""The class scores are read from one channel too early or too late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qverify.decoders.parts.selection import Candidates
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import is_detector

NAME = "class-channels"
FIX = "read class scores from the channel after the box (after the objectness, if there is one)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if is_detector(recipe):
        yield "class scores: from one channel too early", recipe.with_step("candidates", Step("early", _early))
        yield "class scores: from one channel too late", recipe.with_step("candidates", Step("late", _late))


def _early(candidates: Candidates, _: OutputRecipe) -> Candidates:
    if candidates.objectness is None:
        return candidates
    return replace(
        candidates, values=np.concatenate([candidates.objectness[:, None], candidates.values[:, :-1]], axis=1)
    )


def _late(candidates: Candidates, _: OutputRecipe) -> Candidates:
    return replace(candidates, values=candidates.values[:, 1:])
