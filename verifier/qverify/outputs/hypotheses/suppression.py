"""NMS with another threshold, another order, across classes, or left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, Scored
from qverify.outputs.forms import WRONG
from qverify.outputs.recipe import OutputRecipe, Step

Array = npt.NDArray[Any]
NAME = "nms"
FIX = "sort by falling score before NMS, and use the same IoU threshold, by class or across classes, on both sides"
USUAL = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if recipe.evidence.kind != "boxes":
        return
    yield from recipe.vary("iou", USUAL, "NMS: IoU threshold")
    names = {"agnostic": "across classes", "class-wise": "by class", "none": "left out"}
    for kind, said in names.items():
        for variant in recipe.with_settings(nms=kind):
            yield f"NMS: {said}", variant
    if recipe.kept:
        return
    for text, wrong in WRONG.items():
        said = f"boxes are compared as {text}"
        yield (
            f"NMS: {said}",
            recipe.with_step("kept", Step(said, in_order(_falling, _compared_as(wrong)), of_one=False)),
        )
    for text, change in ORDERS.items():
        yield f"NMS: {text}", recipe.with_step("kept", Step(text, change, of_one=False))


def in_order(order: Callable[[Scored], Array], overlap: Callable[[Array, Array, int], Array]) -> Any:
    """Returns a step that visits the anchors in another order, or compares by another measure."""

    def apply(values: tuple[Candidates, Scored], recipe: OutputRecipe) -> Boxes:
        candidates, scored = values
        places = order(scored)[: recipe.settings.before_nms or None]
        boxes = candidates.boxes(scored.index[places])
        classes = scored.classes[places]
        groups = classes if recipe.settings.nms == "class-wise" else np.zeros_like(classes)
        kept = np.array(_greedy(boxes, groups, recipe.settings, overlap), np.int64)
        index = places[kept]
        points = None if candidates.keypoints is None else candidates.keypoints(scored.index[index])
        return Boxes(boxes[kept], scored.scores[index], classes[kept], points)

    return apply


def _greedy(boxes: Array, groups: Array, settings: Any, overlap: Callable[[Array, Array, int], Array]) -> list[int]:
    alive = np.ones(len(boxes), bool)
    members = {group: np.flatnonzero(groups == group) for group in np.unique(groups).tolist()}
    kept: list[int] = []
    for first, group in enumerate(groups.tolist()):
        if not alive[first]:
            continue
        if settings.top and len(kept) == settings.top:
            break
        kept.append(first)
        left = members[group]
        left = left[alive[left] & (left > first)]
        if len(left):
            alive[left[overlap(boxes, left, first) > settings.iou]] = False
    return kept


def measure(boxes: Array, left: Array, first: int, add: float, smaller: bool) -> Array:
    """Returns the IoU of a box with those of `left`, with sides longer by `add`; by the smaller area in place of the union."""
    with np.errstate(all="ignore"):
        one, some = boxes[first], boxes[left]
        inner = _product(np.maximum(np.minimum(one[2:], some[:, 2:]) - np.maximum(one[:2], some[:, :2]) + add, 0.0))
        own, area = _product((one[2:] - one[:2] + add)[None])[0], _product(some[:, 2:] - some[:, :2] + add)
        return _divide(inner, np.minimum(own, area) if smaller else own + area - inner)


def _product(sides: Array) -> Array:
    return np.asarray(sides[:, 0] * sides[:, 1])


def _divide(inner: Array, whole: Array) -> Array:
    """Returns the quotient, 0 for NaN."""
    quotient = inner / whole
    return np.where(np.isnan(quotient), 0.0, quotient)


def _compared_as(change: Callable[[Array], Array]) -> Callable[[Array, Array, int], Array]:
    """Returns an IoU of boxes that are taken for something else. Boxes without area overlap nothing."""

    def overlap(boxes: Array, left: Array, first: int) -> Array:
        return _measure_clamped(change(boxes[np.concatenate([[first], left])]))

    return overlap


def _measure_clamped(boxes: Array) -> Array:
    """Returns the IoU of the first box with all others."""
    with np.errstate(all="ignore"):
        one, some = boxes[0], boxes[1:]
        inner = _product(np.maximum(np.minimum(one[2:], some[:, 2:]) - np.maximum(one[:2], some[:, :2]), 0.0))
        area = _product(np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0))
        return _divide(inner, area[0] + area[1:] - inner)


def iou(boxes: Array, left: Array, first: int) -> Array:
    return measure(boxes, left, first, 0.0, False)


def _falling(scored: Scored) -> Array:
    return np.argsort(-scored.scores, kind="stable")


ORDERS = {
    "not sorted by score": in_order(lambda s: np.arange(len(s.scores)), iou),
    "sorted by rising score": in_order(lambda s: np.argsort(s.scores, kind="stable"), iou),
    "of equal scores the last anchor first": in_order(lambda s: np.argsort(s.scores, kind="stable")[::-1], iou),
    "IoU of boxes with one pixel more on each side (x2 - x1 + 1)": in_order(
        _falling, lambda b, r, f: measure(b, r, f, 1.0, False)
    ),
    "overlap by the smaller box instead of the union": in_order(_falling, lambda b, r, f: measure(b, r, f, 0.0, True)),
}
