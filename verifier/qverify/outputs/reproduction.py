"""Makes the device's result according to a recipe. Recipes that are tried one after another share stages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders import Decoder
from qverify.decoders.parts.results import Boxes, Classes, Keypoints, Mask, Result, Text
from qverify.decoders.parts.selection import (
    Candidates,
    Scored,
    find_best,
    keep_above,
    score_all,
    score_anchors,
    score_best,
    suppress,
    to_picture,
)
from qverify.decoders.parts.settings import Settings
from qverify.outputs.agreement import Wanted, bound
from qverify.outputs.device import Written
from qverify.outputs.forms import FORMS, order_corners
from qverify.outputs.recipe import KEPT, PLACED, SCORES, Output, OutputRecipe, Step

Array = npt.NDArray[Any]
OF_SCORES_ONLY = tuple(name for name in SCORES if name != "activation")  # raw boxes have an activation, too
GEOMETRY = tuple(f.name for f in fields(Settings) if f.name not in (*OF_SCORES_ONLY, *KEPT, *PLACED))
BOXES_ONLY = ("activation", "anchors", "priors", "variances", "dfl", "order", "shares", "box_activation", "grid_offset")
OF_VALUES = tuple(name for name in GEOMETRY if name not in BOXES_ONLY)
ROOM = {
    "output": 40,
    "real": 6,
    "candidates": 12,
    "best": 12,
    "scores": 48,
    "result": 12,
    "kept": 24,
}  # values that are kept, by stage
MOST_EQUAL = 8  # best anchors of equal score that reject a recipe
SAMPLED = 512  # anchors of which one rejects a recipe by its score
MOST_ABOVE = 30_000  # anchors above a threshold that NMS is tried with


class Reproduction:
    """Makes rows, arrays and other results. decoder: its function; the recipe has its settings."""

    def __init__(self, decoder: Decoder | None, written: Written):
        self._decoder, self._written = decoder, written
        self._kept: dict[str, OrderedDict[Hashable, Any]] = {stage: OrderedDict() for stage in ROOM}

    def make_real(self, recipe: OutputRecipe) -> dict[str, Array]:
        """Returns the real values of the outputs, by name."""

        def compute() -> dict[str, Array]:
            outputs = _apply(recipe.stored, recipe.evidence.outputs, recipe)
            return _apply(recipe.real, {name: self._dequantize(output) for name, output in outputs.items()}, recipe)

        return self._once("real", (recipe.stored, recipe.real), compute)

    def _dequantize(self, output: Output) -> Array:
        """Returns the real values of an output. Those of outputs that a step leaves as they are are computed once."""
        return self._once("output", _ById(output), output.real)

    def make_stored(self, recipe: OutputRecipe) -> dict[str, Array]:
        """Returns the outputs as they are stored, by name."""
        return {name: output.values for name, output in _apply(recipe.stored, recipe.evidence.outputs, recipe).items()}

    def make_largest(self, recipe: OutputRecipe) -> dict[str, Array]:
        """Returns the largest magnitudes that the real values are made of, before steps on these, by name."""
        outputs = _apply(recipe.stored, recipe.evidence.outputs, recipe)
        return {name: output.largest() for name, output in outputs.items()}

    def make_decoded(self, recipe: OutputRecipe, index: Array | None, wanted: set[str]) -> dict[str, Array]:
        """Returns boxes (K, 4) in input pixels and scores (K, C) of the anchors at K indices, None for all. wanted: which of
        boxes, scores, keypoints."""
        candidates = self._make_candidates(recipe)
        index = np.arange(len(candidates.values)) if index is None else index
        made: dict[str, Array] = {}
        if "boxes" in wanted:
            made["boxes"] = FORMS[recipe.form](candidates.boxes(index))
        if "scores" in wanted:
            scores, background = score_all(candidates, index, recipe.settings), recipe.settings.background
            known = 0 <= background < scores.shape[1]
            made["scores"] = np.delete(scores, background, axis=1) if known else scores
        if "keypoints" in wanted and candidates.keypoints is not None:
            made["keypoints"] = candidates.keypoints(index).reshape(len(index), -1)
        return made

    def make_scores(self, recipe: OutputRecipe) -> Array:
        """Returns the best score of each anchor, float64 (N,)."""
        return self._score(recipe)[1]

    def make_result(self, recipe: OutputRecipe) -> Result:
        """Returns the result of a decoder without candidates. Raises UsageError if the outputs do not fit it."""
        decoder = self._decoder
        assert decoder is not None
        key = (recipe.stored, recipe.real, repr(recipe.settings))
        return self._once("result", key, lambda: decoder.function(self.make_real(recipe), recipe.settings))

    def make_vector(self, recipe: OutputRecipe) -> Array:
        """Returns the scores of all classes in the order of their numbers, float64 (C,); 0 for a number that no class has."""
        whole = replace(recipe, settings=replace(recipe.settings, top=0, score=0.0))
        rows = self.tabulate(self.make_result(whole), 1.0, whole)
        assert rows is not None
        places = rows.classes - self._written.first_class
        kept = (places >= 0) & (places < len(rows))
        vector = np.zeros(len(rows))
        vector[places[kept]] = rows.scores[kept]
        return vector

    def make_best(self, recipe: OutputRecipe) -> Wanted | None:
        """Returns the rows of the anchors with the best score, as if they were alone; None if they say nothing of the
        whole: no anchor is above the threshold, or too many are equal."""
        if not recipe.of_one:
            return None
        candidates, scores, classes = self._score(recipe)
        if not len(scores):
            return None
        best = scores.max()
        index = np.flatnonzero(scores == best)
        if not best > recipe.settings.score or not 0 < len(index) <= MOST_EQUAL:
            return None
        found = suppress(candidates, Scored(index, classes[index], scores[index]), replace(recipe.settings, nms="none"))
        return self._finish(found, candidates.size, recipe)

    def exceeds(self, recipe: OutputRecipe, highest: float) -> bool:
        """Returns whether one of some anchors has a score above this one, unless a later step may change scores, or the scores
        of all are known already: the cheapest way to reject a recipe whose scores are others."""
        if recipe.kept or recipe.found or recipe.placed or recipe.rows or not recipe.of_one:
            return False
        candidates = self._make_candidates(recipe)
        if len(candidates.values) < 2 * SAMPLED or _scores_key(recipe) in self._kept["scores"]:
            return False
        some = candidates.take(np.arange(0, len(candidates.values), len(candidates.values) // SAMPLED))
        scores, _ = score_best(some, find_best(some, recipe.settings), recipe.settings)
        return bool((scores > highest).any())

    def make_rows_of_score(self, recipe: OutputRecipe, score: float, reach: float) -> Wanted | None:
        """Returns the rows of the anchors with this score, None if many have it."""
        candidates, scores, classes = self._score(recipe)
        index = np.flatnonzero(np.abs(scores - score) <= reach)
        if len(index) > MOST_EQUAL * 8 or not recipe.of_one or (recipe.rows and score > 1):
            return None
        found = suppress(
            candidates, Scored(index, classes[index], scores[index]), replace(recipe.settings, nms="none", top=0)
        )
        return self._finish(found, candidates.size, recipe)

    def make_rows(self, recipe: OutputRecipe) -> Wanted | None:
        """Returns the rows of a detector, None if too many anchors are above the threshold."""
        found, size = self._once("kept", _kept_key(recipe), lambda: self._keep(recipe))
        return None if found is None else self._finish(found, size, recipe)

    def _keep(self, recipe: OutputRecipe) -> tuple[Boxes | None, tuple[int, int]]:
        """Returns the detections that NMS keeps, None if too many anchors are above the threshold; and the input's size."""
        if recipe.settings.multi_label:
            candidates = self._make_candidates(recipe)
            scored = score_anchors(candidates, recipe.settings)
        else:
            candidates, scores, classes = self._score(recipe)
            scored = keep_above(scores, classes, recipe.settings)
        if len(scored.index) > MOST_ABOVE:
            return None, candidates.size
        for step in recipe.kept:
            return step.change((candidates, scored), recipe), candidates.size
        return suppress(candidates, scored, recipe.settings), candidates.size

    def _make_candidates(self, recipe: OutputRecipe) -> Candidates:
        decoder = self._decoder
        assert decoder is not None and decoder.candidates is not None
        make = decoder.candidates

        def compute() -> Candidates:
            return _apply(recipe.candidates, make(self.make_real(recipe), recipe.settings), recipe)

        return self._once("candidates", _geometry_key(recipe), compute)

    def _score(self, recipe: OutputRecipe) -> tuple[Candidates, Array, Array]:
        candidates, settings = self._make_candidates(recipe), recipe.settings

        def compute() -> tuple[Array, Array]:
            how = settings.activation, settings.combine
            order = how if candidates.objectness is not None else ()  # its sign may turn the order of the classes
            key = (*_values_key(recipe), settings.background, *order)
            return score_best(candidates, self._once("best", key, lambda: find_best(candidates, settings)), settings)

        return (candidates, *self._once("scores", _scores_key(recipe), compute))

    def _finish(self, found: Boxes, size: tuple[int, int], recipe: OutputRecipe) -> Wanted:
        """Returns detections in input pixels as the rows that are written."""
        settings = recipe.settings
        found = _apply(recipe.found, found, recipe)
        found = _apply(recipe.placed, to_picture(found, size, settings), recipe)
        sides = [*size, *settings.frame]
        return self.write(found, float(max(sides)), recipe)

    def write(self, found: Boxes, unit: float, recipe: OutputRecipe) -> Wanted:
        """Returns detections as rows: the form of boxes, shares of the picture, the numbers of classes."""
        numbers, written = found.boxes, self._written
        points = None if found.keypoints is None else found.keypoints.reshape(len(found), -1)
        if found.corners is not None and not recipe.rows:
            points = found.corners.reshape(len(found), -1)
        numbers = bound(FORMS[recipe.form](numbers))
        if found.corners is not None and recipe.evidence.corners:
            numbers, points = order_corners(found.corners).reshape(len(found), -1), None
        if points is not None:
            numbers = np.concatenate([numbers, points], axis=1)
        if written.normalized:
            sides = recipe.settings.frame if recipe.settings.frame != (0, 0) else recipe.evidence.size
            numbers, unit = numbers / np.resize(np.array(sides, np.float64), numbers.shape[1]), 1.0
        ours = Wanted(numbers, found.scores, found.classes + written.first_class, unit)
        return _apply(recipe.rows, ours, recipe)

    def tabulate(self, result: Result, unit: float, recipe: OutputRecipe) -> Wanted | None:
        """Returns keypoints (x, y; their number is the class) or classes as rows, None for a mask or text."""
        first = self._written.first_class
        if isinstance(result, Keypoints):
            rows = Wanted(result.points, result.scores, np.arange(len(result.points)) + first, unit)
        elif isinstance(result, Classes):
            rows = Wanted(np.zeros((len(result.classes), 0)), result.scores, result.classes + first, 1.0)
        else:
            return None
        return _apply(recipe.rows, rows, recipe)

    def _once(self, stage: str, key: Hashable, compute: Callable[[], Any]) -> Any:
        kept = self._kept[stage]
        if key in kept:
            kept.move_to_end(key)
            return kept[key]
        value = compute()
        kept[key] = value
        if len(kept) > ROOM[stage]:
            kept.popitem(last=False)
        return value


class _ById:
    """An object as a key: equal to itself only. It keeps the object, so that its place is not used again."""

    __slots__ = ("kept",)

    def __init__(self, kept: object):
        self.kept = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.kept is self.kept

    def __hash__(self) -> int:
        return id(self.kept)


def make_plain(result: Result) -> Array | str | None:
    """Returns the labels of a mask or the text, None for other results."""
    if isinstance(result, Mask):
        return result.labels
    return result.text if isinstance(result, Text) else None


def _geometry_key(recipe: OutputRecipe) -> tuple[Any, ...]:
    settings = recipe.settings
    return (recipe.stored, recipe.real, recipe.candidates, *(getattr(settings, name) for name in GEOMETRY))


def _values_key(recipe: OutputRecipe) -> tuple[Any, ...]:
    """Returns a key that is equal for recipes whose candidates have the same values and objectness."""
    steps = tuple(step for step in recipe.candidates if not step.geometry)
    return (recipe.stored, recipe.real, steps, *(getattr(recipe.settings, name) for name in OF_VALUES))


def _scores_key(recipe: OutputRecipe) -> tuple[Any, ...]:
    settings = recipe.settings
    return (*_values_key(recipe), settings.background, settings.activation, settings.combine)


def _kept_key(recipe: OutputRecipe) -> tuple[Any, ...]:
    """Returns a key that is equal for recipes of which NMS keeps the same detections. A step in its place may read any
    setting."""
    settings = recipe.settings
    read = settings if recipe.kept else tuple(getattr(settings, name) for name in (*SCORES, *KEPT))
    return (*_geometry_key(recipe), recipe.kept, read)


def _apply(steps: tuple[Step, ...], values: Any, recipe: OutputRecipe) -> Any:
    for step in steps:
        values = step.change(values, recipe)
    return values
