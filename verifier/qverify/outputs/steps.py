"""Steps that several families of mistakes use: on arrays of some outputs, on the boxes of anchors, on detections, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.levels import make_centres, make_levels
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates
from qverify.decoders.parts.settings import Settings
from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import Output, OutputRecipe, Outputs, Step

Array = npt.NDArray[Any]
MOST_APART = 12  # outputs that are tried one by one


def list_targets(recipe: OutputRecipe) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields which outputs a mistake may have been made with: a text after the mistake, and their names: all together, and
    each alone if there are a few; of arrays, the one that is explained."""
    evidence = recipe.evidence
    if evidence.kind == "arrays":
        yield "", frozenset({evidence.target})
        return
    yield "", frozenset(evidence.outputs)
    if 1 < len(evidence.outputs) <= MOST_APART:
        for name in evidence.outputs:
            yield f" (only {name})", frozenset({name})


def with_stored(
    recipe: OutputRecipe, name: str, change: Callable[[Output], Output], names: frozenset[str]
) -> OutputRecipe:
    """Returns the recipe with a step on the stored values of these outputs."""

    def apply(outputs: Outputs, _: OutputRecipe) -> Outputs:
        return {n: change(output) if n in names else output for n, output in outputs.items()}

    return recipe.with_step("stored", Step(f"{name} {sorted(names)}", apply))


def with_real(recipe: OutputRecipe, name: str, change: Callable[[Array], Array], names: frozenset[str]) -> OutputRecipe:
    """Returns the recipe with a step on the real values of these outputs."""

    def apply(values: dict[str, Array], _: OutputRecipe) -> dict[str, Array]:
        return {n: change(value) if n in names else value for n, value in values.items()}

    return recipe.with_step("real", Step(f"{name} {sorted(names)}", apply))


Geometry = Callable[[Array, Array, OutputRecipe, Candidates], Array]


def with_anchor_boxes(
    recipe: OutputRecipe, name: str, change: Geometry, points: Geometry | None = None
) -> OutputRecipe:
    """Returns the recipe with a change of the boxes of anchors, before NMS: function of boxes (K, 4), indices (K,), recipe
    and candidates. points: the same of keypoints (K, P, 2)."""

    def apply(candidates: Candidates, own: OutputRecipe) -> Candidates:
        boxes, keypoints = candidates.boxes, candidates.keypoints
        changed = replace(candidates, boxes=lambda index: change(boxes(index), index, own, candidates))
        if keypoints is None or points is None:
            return changed
        return replace(changed, keypoints=lambda index: points(keypoints(index), index, own, candidates))

    return recipe.with_step("candidates", Step(name, apply, geometry=True))


def with_boxes(recipe: OutputRecipe, stage: Any, name: str, change: Callable[[Array], Array]) -> OutputRecipe:
    """Returns the recipe with a change of the boxes (N, 4) of detections, at the stage found or placed."""

    def apply(found: Boxes, _: OutputRecipe) -> Boxes:
        return replace(found, boxes=change(found.boxes))

    return recipe.with_step(stage, Step(name, apply))


def with_rows(recipe: OutputRecipe, name: str, change: Callable[[Wanted], Wanted], of_one: bool = True) -> OutputRecipe:
    """Returns the recipe with a change of the rows that are written."""
    return recipe.with_step("rows", Step(name, lambda rows, _: change(rows), of_one))


def take_rows(rows: Wanted, places: Array) -> Wanted:
    """Returns the rows at these places."""
    return Wanted(rows.numbers[places], rows.scores[places], rows.classes[places], rows.unit)


def check_highest(candidates: Candidates, recipe: OutputRecipe, curve: Callable[[Array], Array]) -> None:
    """Raises ValueError if the highest score cannot be the device's, where `curve`, which rises or falls everywhere, makes
    scores of class values: that is known from the greatest and the least of them, without the work of all others."""
    most, other = recipe.evidence.most, recipe.kept or recipe.rows or len(recipe.candidates) != 1
    if not most or other or candidates.objectness is not None or not candidates.values.size:
        return
    if recipe.settings.background >= 0:
        return
    ends = np.array([candidates.values.max(), candidates.values.min()], np.float64)
    if np.isfinite(ends).all() and not most[0] <= curve(ends).max() <= most[1]:
        raise ValueError("another highest score than the device's")


def find_cells(index: Array, candidates: Candidates, settings: Settings) -> tuple[Array, Array] | None:
    """Returns x, y of the cells (K, 2) of anchors and their strides (K,); None if the anchors are not those of the
    levels."""
    levels = make_levels(candidates.size, settings.strides)
    cells, strides = make_centres(levels, 0.0)
    total, count = len(cells), len(candidates.values)
    if count == total:
        return cells[index], strides[index]
    each = len(settings.anchors[0]) // 2 if settings.anchors else 0
    if not each or count != total * each:
        return None
    parts = np.concatenate([np.tile(np.flatnonzero(strides == level.stride), each) for level in levels])
    return cells[parts[index]], strides[parts[index]]


def is_detector(recipe: OutputRecipe) -> bool:
    """Returns whether the recipe is of a detector whose candidates are known."""
    return recipe.evidence.kind in ("boxes", "decoded")


def has_rows(recipe: OutputRecipe) -> bool:
    """Returns whether the recipe makes rows of boxes, with or without candidates."""
    return recipe.evidence.kind in ("boxes", "plain boxes")
