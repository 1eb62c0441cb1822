"""Which anchors become results, in which order, and with which score: thresholds on another part of the score, other keys of
sorting, numbers that stay behind when others are sorted, other kinds of NMS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, Scored, find_best, score_parts, suppress
from qverify.outputs.agreement import Wanted
from qverify.outputs.hypotheses.suppression import in_order, iou, measure
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.tables import Row

Array = npt.NDArray[Any]
Pair = tuple[Candidates, Scored]
ROWS_OF = ("boxes",)


def _plain(recipe: OutputRecipe) -> bool:
    return not recipe.kept and not recipe.settings.multi_label


def _no_step(recipe: OutputRecipe) -> bool:
    return not recipe.kept


# --- which anchors are above the threshold
CONDITIONS: dict[
    str, Callable[[Array, Array, Array, float], Array]
] = {  # of class score, objectness, raw value, threshold
    "on the objectness alone": lambda c, o, v, t: o > t,
    "on the class score alone": lambda c, o, v, t: c > t,
    "on both parts, not on the score": lambda c, o, v, t: (c > t) & (o > t),
    "on either part of the score": lambda c, o, v, t: (c > t) | (o > t),
    "on the values before their activation": lambda c, o, v, t: v > t,
    "on the square of the score": lambda c, o, v, t: c * c * o * o > t,
    "on the root of the score": lambda c, o, v, t: c * o > t * t,
}


def _kept_where(condition: Callable[[Array, Array, Array, float], Array], reads_objectness: bool) -> Any:
    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        candidates, settings = values[0], recipe.settings
        if reads_objectness and candidates.objectness is None:
            raise ValueError("no objectness to compare")
        best = find_best(candidates, settings)
        scores, of_class, objectness = score_parts(candidates, best, settings)
        raw = np.asarray(candidates.values[np.arange(len(best)), best], np.float64)
        index = np.flatnonzero(condition(of_class, objectness, raw, settings.score))
        return suppress(candidates, Scored(index, best[index], scores[index]), settings)

    return apply


# --- scores and classes that are written
WRITTEN: dict[str, Callable[[Array, Array, Array], Array]] = {  # of class score, objectness, raw value
    "the class score alone is written": lambda c, o, v: c,
    "the objectness alone is written": lambda c, o, v: o,
    "the value before its activation is written": lambda c, o, v: v,
    "the square of the score is written": lambda c, o, v: c * c * o * o,
    "the root of the score is written": lambda c, o, v: np.sqrt(np.maximum(c * o, 0.0)),
    "the mean of its parts is written": lambda c, o, v: (c + o) / 2,
}


def _kept_as(values: Pair, recipe: OutputRecipe) -> tuple[Boxes, Array]:
    """Returns the intended detections, and the anchor of each."""
    candidates, scored = values
    marked = replace(candidates, keypoints=lambda index: np.asarray(index, np.float64)[:, None, None])
    kept = suppress(marked, scored, recipe.settings)
    assert kept.keypoints is not None
    index = kept.keypoints.reshape(-1).astype(np.int64)
    points = None if candidates.keypoints is None else candidates.keypoints(index)
    return replace(kept, keypoints=points), index


def _written_as(change: Callable[[Array, Array, Array], Array]) -> Any:
    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        kept, index = _kept_as(values, recipe)
        part = values[0].take(index)
        _, of_class, objectness = score_parts(part, kept.classes, recipe.settings)
        raw = np.asarray(part.values[np.arange(len(index)), kept.classes], np.float64)
        return replace(kept, scores=change(of_class, objectness, raw))

    return apply


def _of_class(choose: Callable[[Array, Array], Array], scores: bool, classes: bool) -> Any:
    """The score, the number or both of another class. choose: of the values (K, C) and the classes."""

    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        kept, index = _kept_as(values, recipe)
        if not len(index):
            return kept
        part = values[0].take(index)
        other = choose(np.asarray(part.values, np.float64), kept.classes)
        found = score_parts(part, other, recipe.settings)[0] if scores else kept.scores
        return replace(kept, scores=found, classes=other if classes else kept.classes)

    return apply


def _second(values: Array, classes: Array) -> Array:
    rest = values.copy()
    rest[np.arange(len(rest)), classes] = -np.inf
    return rest.argmax(axis=1)


OTHERS: dict[str, Callable[[Array, Array], Array]] = {
    "class 0": lambda v, c: np.zeros(len(v), np.int64),
    "the last class": lambda v, c: np.full(len(v), v.shape[1] - 1),
    "the class before": lambda v, c: (c - 1) % v.shape[1],
    "the class after": lambda v, c: (c + 1) % v.shape[1],
    "the second best class": _second,
    "the lowest class": lambda v, c: v.argmin(axis=1),
}


# --- order, and what is left behind when others are sorted
def _keys(name: str) -> Callable[[Candidates, Scored, OutputRecipe], Array]:
    def find(candidates: Candidates, scored: Scored, recipe: OutputRecipe) -> Array:
        if name in ("class", "objectness"):
            part = score_parts(candidates.take(scored.index), scored.classes, recipe.settings)
            return part[1 if name == "class" else 2]
        b = candidates.boxes(scored.index)
        sides = b[:, 2:] - b[:, :2]
        keys = {"area": sides.prod(axis=1), "y2": b[:, 3], "y1": b[:, 1], "x1": b[:, 0], "x2": b[:, 2]}
        return keys[name] if name in keys else scored.classes.astype(np.float64)

    return find


ORDERS = {
    "sorted by the class score, not the score": ("class", -1),
    "sorted by the objectness": ("objectness", -1),
    "sorted by falling area": ("area", -1),
    "sorted by rising area": ("area", 1),
    "sorted by y2, the lowest box first": ("y2", -1),
    "sorted by y1": ("y1", 1),
    "sorted by x1": ("x1", 1),
    "sorted by x2, the rightmost box first": ("x2", -1),
    "sorted by the number of the class": ("number", 1),
}


def _sorted_by(key: str, sign: int) -> Any:
    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        keys = _keys(key)(*values, recipe)
        found: Boxes = in_order(lambda s: np.argsort(sign * keys, kind="stable"), iou)(values, recipe)
        return found

    return apply


def _left_behind(what: str) -> Any:
    """Boxes, scores or classes are taken from the list before it was sorted."""

    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        candidates, scored = values
        order = np.argsort(-scored.scores, kind="stable")
        order = order[: recipe.settings.before_nms or None]
        place = np.arange(len(order))
        sources = {name: (place if name == what else order) for name in ("boxes", "scores", "classes")}
        mixed = Scored(
            scored.index[sources["boxes"]], scored.classes[sources["classes"]], scored.scores[sources["scores"]]
        )
        if what != "scores":
            return suppress(candidates, mixed, recipe.settings)
        kept, index = _kept_as(values, recipe)
        rank = {int(a): n for n, a in enumerate(scored.index[order])}
        return replace(kept, scores=scored.scores[[rank[int(a)] for a in index]] if len(index) else kept.scores)

    return apply


def _results_left_behind(what: str) -> Any:
    """NMS gives places in the sorted list, which are used in the list before it was sorted."""

    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        candidates, scored = values
        order = np.argsort(-scored.scores, kind="stable")[: recipe.settings.before_nms or None]
        kept, index = _kept_as(values, recipe)
        rank = {int(a): n for n, a in enumerate(scored.index[order])}
        place = np.array([rank[int(a)] for a in index], np.int64)
        if what in ("boxes", "all"):
            kept = replace(kept, boxes=candidates.boxes(scored.index[place]))
        if what in ("classes", "all"):
            kept = replace(kept, classes=scored.classes[place])
        if what in ("scores", "all"):
            kept = replace(kept, scores=scored.scores[place])
        return kept

    return apply


# --- other kinds of NMS
def _fast(values: Pair, recipe: OutputRecipe) -> Boxes:
    """A box goes if its IoU with any better one is above the threshold, whether that is kept or not."""
    return _matrix(values, recipe, lambda over, _: np.asarray(~over.any(axis=0)))


def _next_only(values: Pair, recipe: OutputRecipe) -> Boxes:
    return _matrix(values, recipe, lambda over, _: np.asarray(np.r_[True, ~np.diagonal(over, 1)][: len(over)]))


def _matrix(values: Pair, recipe: OutputRecipe, choose: Callable[[Array, Array], Array]) -> Boxes:
    candidates, scored = values
    order = np.argsort(-scored.scores, kind="stable")[: min(recipe.settings.before_nms or MOST, MOST)]
    boxes, classes = candidates.boxes(scored.index[order]), scored.classes[order]
    table = np.array([iou(boxes, np.arange(len(boxes)), at) for at in range(len(boxes))]).reshape(len(boxes), -1)
    same = (classes[:, None] == classes[None]) | (recipe.settings.nms == "agnostic")
    over = np.triu((table > recipe.settings.iou) & same, 1)
    kept = np.flatnonzero(choose(over, table))[: recipe.settings.top or None]
    points = None if candidates.keypoints is None else candidates.keypoints(scored.index[order[kept]])
    return Boxes(boxes[kept], scored.scores[order[kept]], classes[kept], points)


MOST = 1000  # boxes that are compared with each other


def _soft(decay: Callable[[Array, float], Array]) -> Any:
    """Soft-NMS: scores of overlapping boxes fall; those above the threshold of the score stay."""

    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        candidates, scored = values
        settings = recipe.settings
        order = np.argsort(-scored.scores, kind="stable")[:MOST]
        boxes, classes = candidates.boxes(scored.index[order]), scored.classes[order]
        scores, left, kept = scored.scores[order].copy(), np.arange(len(order)), list[int]()
        while len(left) and not (settings.top and len(kept) == settings.top):
            first = int(left[scores[left].argmax()])
            kept.append(first)
            left = left[left != first]
            over = iou(boxes, left, first)
            same = (classes[left] == classes[first]) | (settings.nms == "agnostic")
            scores[left] *= np.where(same, decay(over, settings.iou), 1.0)
            left = left[scores[left] > settings.score]
        at = np.array(kept, np.int64)
        points = None if candidates.keypoints is None else candidates.keypoints(scored.index[order[at]])
        return Boxes(boxes[at], scores[at], classes[at], points)

    return apply


def _enclosing(boxes: Array, left: Array, first: int) -> tuple[Array, Array]:
    low, high = np.minimum(boxes[first, :2], boxes[left, :2]), np.maximum(boxes[first, 2:], boxes[left, 2:])
    return low, high


def _diou(boxes: Array, left: Array, first: int) -> Array:
    low, high = _enclosing(boxes, left, first)
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    away = ((centre[first] - centre[left]) ** 2).sum(axis=1) / np.maximum(((high - low) ** 2).sum(axis=1), 1e-300)
    return iou(boxes, left, first) - away


def _giou(boxes: Array, left: Array, first: int) -> Array:
    low, high = _enclosing(boxes, left, first)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    share = iou(boxes, left, first)
    union = (area[first] + area[left]) / (1 + share)
    whole = np.maximum((high - low).prod(axis=1), 1e-300)
    return share - (whole - union) / whole


def _by_area(pick: Callable[[Array, Array], Array]) -> Callable[[Array, Array, int], Array]:
    """The overlap divided by another area."""

    def overlap(boxes: Array, left: Array, first: int) -> Array:
        area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
        inner = iou(boxes, left, first)
        inner = inner * (area[first] + area[left]) / (1 + inner)
        with np.errstate(all="ignore"):
            return np.nan_to_num(inner / pick(np.full(len(left), area[first]), area[left]))

    return overlap


def _falling(scored: Scored) -> Array:
    return np.argsort(-scored.scores, kind="stable")


def _rounded(boxes: Array, left: Array, first: int, to: Callable[[Array], Array]) -> Array:
    return measure(to(boxes), left, first, 0.0, False)


MEASURES: dict[str, Callable[[Array, Array, int], Array]] = {
    "DIoU instead of IoU": _diou,
    "GIoU instead of IoU": _giou,
    "the overlap by the larger box": _by_area(np.maximum),
    "the overlap by the better box": _by_area(lambda a, b: a),
    "the overlap by the worse box": _by_area(lambda a, b: b),
    "the overlap by the sum of both areas": _by_area(lambda a, b: a + b),
    "the overlap by the mean of both areas": _by_area(lambda a, b: (a + b) / 2),
    "IoU of corners cut to whole numbers": lambda b, r, f: _rounded(b, r, f, np.trunc),
    "IoU of corners rounded to whole numbers": lambda b, r, f: _rounded(b, r, f, np.rint),
    "IoU of corners cut to whole numbers, with one pixel more": lambda b, r, f: measure(np.trunc(b), r, f, 1.0, False),
    "IoU of negative sides (not cut to 0)": lambda b, r, f: _unclamped(b, r, f),
}


def _unclamped(boxes: Array, left: Array, first: int) -> Array:
    with np.errstate(all="ignore"):
        low, high = np.maximum(boxes[first, :2], boxes[left, :2]), np.minimum(boxes[first, 2:], boxes[left, 2:])
        inner, area = (high - low).prod(axis=1), (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
        return np.nan_to_num(inner / (area[first] + area[left] - inner))


def _best_of_class(most: int) -> Any:
    """Lets only the best few anchors of each class into NMS."""

    def apply(values: Pair, recipe: OutputRecipe) -> Boxes:
        candidates, scored = values
        order = np.argsort(-scored.scores, kind="stable")
        kept = np.concatenate([order[scored.classes[order] == c][:most] for c in np.unique(scored.classes)] or [order])
        kept = np.sort(kept)
        return suppress(
            candidates, Scored(scored.index[kept], scored.classes[kept], scored.scores[kept]), recipe.settings
        )

    return apply


def _has_nms(recipe: OutputRecipe) -> bool:
    return _no_step(recipe) and recipe.settings.nms != "none"


def _rows(change: Callable[[Wanted], Wanted]) -> Any:
    return lambda rows, _: change(rows)


def _make() -> Iterator[Row]:
    for said, condition in CONDITIONS.items():
        step = _kept_where(condition, "objectness" in said or "part" in said)
        yield Row("score-threshold", said, "kept", step, ROWS_OF, False, _plain)
    for said, change in WRITTEN.items():
        yield Row("score", said, "kept", _written_as(change), ROWS_OF, False, _no_step)
    for said, choose in OTHERS.items():
        yield Row("score", f"of {said} is written", "kept", _of_class(choose, True, False), ROWS_OF, False, _no_step)
    for said, choose in OTHERS.items():
        if said != "class 0":
            step = _of_class(choose, False, True)
            yield Row("class-number", f"that of {said} is written", "kept", step, ROWS_OF, False, _no_step)
            step = _of_class(choose, True, True)
            yield Row("class-number", f"{said}, with its score", "kept", step, ROWS_OF, False, _no_step)
    for said, (key, sign) in ORDERS.items():
        yield Row("nms", said, "kept", _sorted_by(key, sign), ROWS_OF, False, _has_nms)
    for what in ("boxes", "scores", "classes"):
        yield Row("nms", f"{what} are not sorted with the others", "kept", _left_behind(what), ROWS_OF, False, _no_step)
    for what in ("boxes", "scores", "classes", "all"):
        said = f"{what if what != 'all' else 'results'} taken from the list before it was sorted"
        yield Row("nms", said, "kept", _results_left_behind(what), ROWS_OF, False, _no_step)
    yield Row(
        "nms", "boxes go that overlap any better one, kept or not (fast NMS)", "kept", _fast, ROWS_OF, False, _has_nms
    )
    yield Row("nms", "only neighbours in the sorted list are compared", "kept", _next_only, ROWS_OF, False, _has_nms)
    for said, overlap in MEASURES.items():
        yield Row("nms", said, "kept", in_order(_falling, overlap), ROWS_OF, False, _has_nms)
    for said, decay in SOFT.items():
        yield Row("nms", said, "kept", _soft(decay), ROWS_OF, False, _has_nms)
    for most in (1, 5, 10, 20, 50, 100, 200, 300, 400):
        said = f"only the best {most} anchors of each class go into NMS"
        yield Row("top", said, "kept", _best_of_class(most), ROWS_OF, False, _has_nms)
    for said, numbers in SCORES.items():
        yield Row(
            "score", said, "rows", _rows(_scored(numbers)), ("boxes", "plain boxes", "classes", "vector", "keypoints")
        )


SOFT: dict[str, Callable[[Array, float], Array]] = {
    "soft-NMS, linear": lambda over, t: np.where(over > t, 1 - over, 1.0),
    "soft-NMS, Gaussian (sigma 0.5)": lambda over, t: functions64.exp(-over * over / 0.5),
    "soft-NMS, Gaussian (sigma 0.3)": lambda over, t: functions64.exp(-over * over / 0.3),
}
SCORES: dict[str, Callable[[Array], Array]] = {
    "as 0 to 255": lambda s: s * 255,
    "as 0 to 1000": lambda s: s * 1000,
    "as a share of 100": lambda s: s / 100,
    "as a logarithm": lambda s: functions64.log(np.maximum(s, 1e-300)),
    "its sigmoid": lambda s: 1 / (1 + functions64.exp(-s)),
    "always 1": lambda s: np.ones(s.shape),
    "always 0": lambda s: np.zeros(s.shape),
    "cut to whole per cents": lambda s: np.trunc(s * 100) / 100,
}


def _scored(change: Callable[[Array], Array]) -> Callable[[Wanted], Wanted]:
    return lambda rows: Wanted(rows.numbers, change(rows.scores), rows.classes, rows.unit)


ROWS = tuple(_make())
