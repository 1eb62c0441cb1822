"""What is read from heatmaps, masks, sequences of characters and vectors of classes, made otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.arithmetic.norms import norm
from qverify.decoders.parts.functions import softmax
from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.tables import Row

Array = npt.NDArray[Any]
COCO_SIDES = (0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15)
MPII_SIDES = (5, 4, 3, 2, 1, 0, 6, 7, 8, 9, 15, 14, 13, 12, 11, 10)
CITYSCAPES = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)


# --- keypoints of heatmaps
def _sides(order: tuple[int, ...]) -> Any:
    def apply(rows: Wanted, _: OutputRecipe) -> Wanted:
        if len(rows) != len(order):
            return rows
        return Wanted(rows.numbers[list(order)], rows.scores[list(order)], rows.classes, rows.unit)

    return apply


def _neighbours(first: int) -> Any:
    """Keypoint `first` and the one after it exchanged; all such pairs from there on if negative: -1 from 0, -2 from 1."""

    def apply(rows: Wanted, _: OutputRecipe) -> Wanted:
        order = np.arange(len(rows))
        starts = [first] if first >= 0 else range(-1 - first, len(rows) - 1, 2)
        for at in starts:
            if at + 1 < len(rows):
                order[[at, at + 1]] = order[[at + 1, at]]
        return Wanted(rows.numbers[order], rows.scores[order], rows.classes, rows.unit)

    return apply


def _reversed(rows: Wanted, _: OutputRecipe) -> Wanted:
    return Wanted(rows.numbers[::-1], rows.scores[::-1], rows.classes, rows.unit)


def _rolled(by: int) -> Any:
    return lambda rows, _: Wanted(np.roll(rows.numbers, by, 0), np.roll(rows.scores, by), rows.classes, rows.unit)


def _in_map(change: Callable[[Array, Array, Array, Array], Array]) -> Any:
    """Points (P, 2) from what they are in cells: function of cells, sides of the map, picture and its used part."""

    def apply(rows: Wanted, recipe: OutputRecipe) -> Wanted:
        s, size = recipe.settings, np.array(recipe.evidence.size, np.float64)
        frame = size if s.frame == (0, 0) else np.array(s.frame, np.float64)
        corner, part = (np.array(s.roi[:2]), np.array(s.roi[2:])) if s.roi else (np.zeros(2), frame)
        map_size = size / s.strides[0]
        if not s.roi and s.frame != (0, 0) and s.fit != "stretch":
            return rows
        cells = (rows.numbers[:, :2] - corner) * map_size / part
        made = change(cells, map_size, corner, part)
        return Wanted(made, rows.scores, rows.classes, max(rows.unit, float(np.abs(made).max(initial=0.0))))

    return apply


def _exchanged(cells: Array, size: Array, corner: Array, part: Array) -> Array:
    """The place in a map of exchanged sides: place // height, place % height."""
    whole = np.rint(cells)
    place = whole[:, 1] * size[0] + whole[:, 0]
    turned = np.stack([place % size[1], place // size[1]], axis=1)
    return corner + (turned + cells - whole) * part / size


MAPS: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "by the corners' centres (width - 1, height - 1)": lambda c, s, o, p: o + c * (p - 1) / (s - 1),
    "by width - 1 and height - 1 of the map only": lambda c, s, o, p: o + c * p / (s - 1),
    "by half a pixel ((cell + 0.5) * ratio - 0.5)": lambda c, s, o, p: o + (c + 0.5) * p / s - 0.5,
    "the corner of the used part is not added": lambda c, s, o, p: c * p / s,
    "the corner of the used part is subtracted": lambda c, s, o, p: c * p / s - o,
    "in cells of the map": lambda c, s, o, p: c,
    "in cells of the map, with the corner of the used part": lambda c, s, o, p: o + c,
    "by the ratio of the other side": lambda c, s, o, p: o + c * (p / s)[::-1],
    "by the ratio of the width": lambda c, s, o, p: o + c * (p / s)[0],
    "by the ratio of the height": lambda c, s, o, p: o + c * (p / s)[1],
    "without the move towards the higher neighbour, rounded": lambda c, s, o, p: o + np.rint(c) * p / s,
    "cut to whole cells": lambda c, s, o, p: o + np.floor(c) * p / s,
    "width and height of the map exchanged (place // height)": _exchanged,
}


# --- masks
def _mask(change: Callable[[Array], Array]) -> Any:
    return lambda labels, _: change(np.asarray(labels))


def _of_table(table: tuple[int, ...]) -> Callable[[Array], Array]:
    return lambda v: np.array(table)[v] if v.size and v.min() >= 0 and v.max() < len(table) else v


def _moved(away: int, axis: int) -> Callable[[Array], Array]:
    return lambda v: np.roll(v, away, axis=axis)


MASKS: dict[str, Callable[[Array], Array]] = {
    "turned by half a turn": lambda v: v[::-1, ::-1],
    "turned by 90 degrees": lambda v: np.rot90(v).reshape(v.shape) if v.ndim == 2 else v,
    "numbers of Cityscapes (id instead of train id)": _of_table(CITYSCAPES),
    "all classes above 0 are 1": lambda v: (v > 0).astype(np.int64),
    "1 - label": lambda v: 1 - v,
    "background as 255": lambda v: np.where(v == 0, 255, v),
    "in 4 bits": lambda v: v & 15,
}
MASKS |= {f"moved by one pixel {said}": _moved(*by) for said, by in {
    "to the right": (1, 1), "to the left": (-1, 1), "down": (1, 0), "up": (-1, 0)}.items()}  # fmt: skip


# --- vectors of classes
def _over_best(rows: Wanted, _: OutputRecipe) -> Wanted:
    total = rows.scores.sum()
    return Wanted(rows.numbers, rows.scores / total, rows.classes, rows.unit)


def _sorted_scores(rows: Wanted, _: OutputRecipe) -> Wanted:
    return Wanted(rows.numbers, rows.scores[::-1], rows.classes, rows.unit)


def _sorted_classes(rows: Wanted, _: OutputRecipe) -> Wanted:
    return Wanted(rows.numbers, rows.scores, np.sort(rows.classes), rows.unit)


VECTORS: dict[str, Callable[[Array], Array]] = {
    "softmax of half of the values (temperature 2)": lambda v: v / 2,
    "softmax of twice the values": lambda v: v * 2,
    "logits without their signs": np.abs,
    "logits with the opposite signs": np.negative,
    "negative values cut to 0": lambda v: np.maximum(v, 0.0),
    "the list begins one class late": lambda v: np.roll(v, 1),
    "the list begins one class early": lambda v: np.roll(v, -1),
    "in reverse order": lambda v: v.reshape(-1)[::-1].reshape(v.shape),
    "logits divided by the largest": lambda v: v / np.abs(v).max(),
    "values divided by their sum": lambda v: v / v.sum(),
    "values divided by their length": lambda v: v / norm(v),
    "the logarithm of the softmax": lambda v: functions64.log(softmax(v.reshape(-1))).reshape(v.shape),
}


def _without_classes(rows: Wanted, _: OutputRecipe) -> Wanted:
    return Wanted(rows.numbers, rows.scores, np.arange(len(rows)), rows.unit)


def _rising(rows: Wanted, _: OutputRecipe) -> Wanted:
    return Wanted(rows.numbers, rows.scores[::-1], np.arange(len(rows)), rows.unit)


def _best_only(rows: Wanted, _: OutputRecipe, most: int) -> Wanted:
    return Wanted(rows.numbers, np.where(np.arange(len(rows)) < most, rows.scores, 0.0), rows.classes, rows.unit)


# --- text
TEXTS: dict[str, Callable[[Array], Array]] = {  # of a table of steps and classes
    "steps in reverse order": lambda v: v[::-1],
    "the first step left out": lambda v: v[1:],
    "the last step left out": lambda v: v[:-1],
    "every second step only": lambda v: v[::2],
    "the lowest class of each step": np.negative,
    "the last class left out": lambda v: v[:, :-1],
    "classes read one too early": lambda v: np.roll(v, 1, axis=1),
    "classes read one too late": lambda v: np.roll(v, -1, axis=1),
}


def _table(change: Callable[[Array], Array]) -> Any:
    def apply(values: Array) -> Array:
        long = [at for at, d in enumerate(values.shape) if d > 1]
        return change(values.reshape([values.shape[at] for at in long])) if len(long) == 2 else values

    return apply


def _make() -> Iterator[Row]:
    for said, order in (("COCO's 17", COCO_SIDES), ("MPII's 16", MPII_SIDES)):
        yield Row("keypoints", f"left and right exchanged ({said})", "rows", _sides(order), ("keypoints",))
    for first in range(16):
        said = f"number {first} and {first + 1} exchanged"
        yield Row("keypoints", said, "rows", _neighbours(first), ("keypoints",))
    for first, said in ((-1, "each even one and the next"), (-2, "each odd one and the next")):
        yield Row("keypoints", f"{said} exchanged", "rows", _neighbours(first), ("keypoints",))
    yield Row("keypoints", "in reverse order", "rows", _reversed, ("keypoints",))
    for by, said in ((1, "one too early"), (-1, "one too late")):
        yield Row("keypoints", f"numbered {said}", "rows", _rolled(by), ("keypoints",))
    for said, in_map in MAPS.items():
        yield Row("keypoints", said, "rows", _in_map(in_map), ("keypoints",))
    for said, mask in MASKS.items():
        yield Row("labels", said, "rows", _mask(mask), ("mask",))
    for said, vector in VECTORS.items():
        yield Row("activation", said, "real", vector, ("classes", "vector"), whole=True)
    yield Row("order", "probabilities by falling score, without their classes", "rows", _without_classes, ("vector",))
    yield Row("order", "probabilities by rising score, without their classes", "rows", _rising, ("vector",))
    for most in (1, 3, 5, 10):
        yield Row("top", f"all but the best {most} are 0", "rows", partial(_best_only, most=most), ("vector",))
    yield Row("activation", "softmax over the best results only", "rows", _over_best, ("classes",))
    yield Row("order", "scores in rising order beside classes by falling score", "rows", _sorted_scores, ("classes",))
    yield Row("order", "classes by their number beside falling scores", "rows", _sorted_classes, ("classes",))
    for said, text in TEXTS.items():
        yield Row("characters", said, "real", _table(text), ("text",), whole=True)


ROWS = tuple(_make())
