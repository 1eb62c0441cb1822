"""The class scores are read from one channel too early or too late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.decoders.parts.selection import Candidates
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import is_detector

NAME = "class-channels"
FIX = "read class scores from the channel after the box (after the objectness, if there is one)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if is_detector(recipe):
        said = "class scores: from one channel too early"
        yield said, recipe.with_step("candidates", Step("early", partial(_early, as_many=True)))
        more = f"{said}, one class more"
        yield more, recipe.with_step("candidates", Step("early, one more", partial(_early, as_many=False)))
        yield "class scores: from one channel too late", recipe.with_step("candidates", Step("late", _late))
        second = "class scores: from one channel too late, the first of them taken for the objectness"
        yield second, recipe.with_step("candidates", Step("late, objectness", _late_with_objectness))


def _early(candidates: Candidates, _: OutputRecipe, as_many: bool) -> Candidates:
    """as_many: the last class is left out."""
    before = candidates.before
    if candidates.objectness is not None:
        before = candidates.objectness[:, None]
    if before is None:
        return candidates
    values = candidates.values[:, :-1] if as_many else candidates.values
    return replace(candidates, values=np.concatenate([before[:, -1:], values], axis=1))


def _late(candidates: Candidates, _: OutputRecipe) -> Candidates:
    return replace(candidates, values=candidates.values[:, 1:])


def _late_with_objectness(candidates: Candidates, _: OutputRecipe) -> Candidates:
    if candidates.objectness is not None or candidates.values.shape[1] < 2:
        return candidates
    return replace(candidates, objectness=candidates.values[:, 0], values=candidates.values[:, 1:])
