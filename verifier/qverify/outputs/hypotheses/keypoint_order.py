"""Keypoints whose x and y are exchanged, or which are not brought to the picture as the boxes are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, find_placement
from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import find_cells, is_detector, with_anchor_boxes, with_rows

Array = npt.NDArray[Any]
NAME = "keypoints"
FIX = "keypoints are pairs of x and y: (cell + value) * stride, then the way back to the picture, as for boxes"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if recipe.evidence.kind == "keypoints":
        yield "keypoints: x and y exchanged", with_rows(recipe, "y, x", _exchanged)
        yield from recipe.vary(
            "refine", (0.0, 0.25, 0.5, -0.25, 1.0), "keypoints: part of a cell towards the higher neighbour"
        )
        return
    if not is_detector(recipe):
        return
    for text, change in PLACED.items():
        yield f"keypoints: {text}", recipe.with_step("placed", Step(f"{NAME} {text}", change))
    said = "x and y exchanged in the input, before the way back to the picture"
    yield f"keypoints: {said}", recipe.with_step("found", Step(f"{NAME} {said}", PLACED["x and y exchanged"]))
    for text, geometry in GEOMETRY.items():
        yield (
            f"keypoints: {text}",
            with_anchor_boxes(recipe, f"{NAME} {text}", lambda boxes, _i, _r, _c: boxes, geometry),
        )


def _exchanged(rows: Wanted) -> Wanted:
    return Wanted(rows.numbers[:, [1, 0]], rows.scores, rows.classes, rows.unit)


def _with_points(found: Boxes, change: Callable[[Array], Array]) -> Boxes:
    if found.keypoints is None:
        return found
    points = found.keypoints.copy()
    points[..., :2] = change(points[..., :2])
    return replace(found, keypoints=points)


def _not_back(found: Boxes, recipe: OutputRecipe) -> Boxes:
    placement = find_placement(recipe.evidence.size, recipe.settings)
    return _with_points(found, lambda p: p * np.array(placement.ratio) + np.array(placement.pad))


def _without_pad(found: Boxes, recipe: OutputRecipe) -> Boxes:
    placement = find_placement(recipe.evidence.size, recipe.settings)
    return _with_points(found, lambda p: p + np.array(placement.pad) / np.array(placement.ratio))


def _ratio_left(found: Boxes, recipe: OutputRecipe) -> Boxes:
    placement = find_placement(recipe.evidence.size, recipe.settings)
    return _with_points(found, lambda p: p * np.array(placement.ratio))


def _stretched(found: Boxes, recipe: OutputRecipe) -> Boxes:
    size, frame = np.array(recipe.evidence.size), np.array(recipe.settings.frame)
    if not frame.all():
        return found
    placement = find_placement(recipe.evidence.size, recipe.settings)
    own = np.array(placement.ratio), np.array(placement.pad)
    return _with_points(found, lambda p: (p * own[0] + own[1]) * (frame / size))


def _from_box(found: Boxes, _: OutputRecipe) -> Boxes:
    return _with_points(found, lambda p: p - found.boxes[:, None, :2])


PLACED: dict[str, Any] = {
    "x and y exchanged": lambda found, _: _with_points(found, lambda p: p[..., ::-1]),
    "not brought back to the picture": _not_back,
    "the padding is not cut": _without_pad,
    "the ratio is not undone": _ratio_left,
    "taken as stretched: each side by its own ratio": _stretched,
    "relative to the corner of the box": _from_box,
    "mirrored (left and right exchanged)": lambda found, _: _mirrored(found),
    "all x, then all y": lambda found, _: _planar(found),
}


def _mirrored(found: Boxes) -> Boxes:
    if found.keypoints is None or found.keypoints.shape[1] != 5:
        return found
    return replace(found, keypoints=found.keypoints[:, [1, 0, 2, 4, 3]])


def _planar(found: Boxes) -> Boxes:
    points = found.keypoints
    if points is None or points.shape[2] != 2:
        return found
    return replace(found, keypoints=points.transpose(0, 2, 1).reshape(points.shape))


def _geometry(change: Callable[[Array, Array, Array], Array]) -> Any:
    def apply(points: Array, index: Array, recipe: OutputRecipe, candidates: Candidates) -> Array:
        cells = find_cells(index, candidates, recipe.settings)
        return points if cells is None else change(points, cells[0][:, None], cells[1][:, None, None])

    return apply


GEOMETRY: dict[str, Any] = {
    "the cell is not added": _geometry(lambda p, cell, stride: p - cell * stride),
    "not multiplied by the stride": _geometry(lambda p, cell, stride: p / stride),
    "the value is not multiplied by the stride": _geometry(
        lambda p, cell, stride: (p - cell * stride) / stride + cell * stride
    ),
    "from the centre of the cell": _geometry(lambda p, cell, stride: p + 0.5 * stride),
}
