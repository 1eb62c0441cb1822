"""From candidates to detections: score, threshold, NMS, and the way back to the picture. Written once for every detector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.functions import logit, sigmoid, softmax
from qverify.decoders.parts.levels import Level, make_centres
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Geometry = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class BoxParts:
    """What the boxes of K anchors are made of: centre = origin + unit * f(numbers[:2]), size = scale * g(numbers[2:4]), or
    distances from the centre of the cell; f and g are of the family.

    Attributes:
        numbers: float64 (K, 4 or more), as the network gives them.
        origin, unit: (K, 2): the corner of the cell (of a prior: its centre) and what a move within it is multiplied by, in
            input pixels.
        scale: (K, 2): what the size is multiplied by: stride, anchor or prior, in input pixels.
        active: whether the network applied the activation of the numbers itself.
    """

    numbers: Array
    origin: Array
    unit: Array
    scale: Array
    active: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a detector gives for every anchor, in the order of its anchors.

    Attributes:
        values: (N, C): class scores before their activation.
        boxes: returns x1, y1, x2, y2 (float64 (K, 4), input pixels) of the anchors at K indices.
        objectness: (N,) before its activation, None if there is none.
        keypoints: returns x, y (float64 (K, P, 2 or 3), input pixels) of anchors; None if there are none.
        activation: of values and objectness, if the settings state none: none, sigmoid or softmax.
        combine: of class score and objectness, if the settings state none.
        size: (width, height) of the network's input.
        parts: returns what the boxes of anchors are made of; None if the network decoded them itself.
        before: (N, K): the channels that lie before the class scores in the same output, the nearest last, where no
            objectness does; None if the scores are an output of their own.
        of_values, of_objectness: activation of one of them alone, which the settings do not change; "" for none such.
    """

    values: Array
    boxes: Geometry
    size: tuple[int, int]
    objectness: Array | None = None
    keypoints: Geometry | None = None
    activation: str = "none"
    combine: str = "product"
    of_values: str = ""
    of_objectness: str = ""
    parts: Callable[[Array], BoxParts] | None = None
    before: Array | None = None

    def take(self, index: Array) -> Candidates:
        """Returns the scores of the anchors at these indices; their boxes are those of all anchors still."""
        objectness = None if self.objectness is None else self.objectness[index]
        return replace(self, values=self.values[index], objectness=objectness)


@dataclass(frozen=True, slots=True)
class Scored:
    """Anchors above the threshold, in their order. index, classes: int64 (K,). scores: float64 (K,)."""

    index: Array
    classes: Array
    scores: Array


def select(candidates: Candidates, settings: Settings) -> Boxes:
    """Returns the detections of the candidates."""
    kept = suppress(candidates, score_anchors(candidates, settings), settings)
    return to_picture(kept, candidates.size, settings)


def score_anchors(candidates: Candidates, settings: Settings) -> Scored:
    """Returns the anchors whose score is above the threshold; an anchor several times with `multi_label`. A score that is
    NaN is never above."""
    if not settings.multi_label:
        return keep_above(*score_best(candidates, find_best(candidates, settings), settings), settings)
    rows = _find_possible(candidates, settings)
    scores = score_all(candidates, rows, settings)
    scores = _leave_out_background(scores, settings)
    places, classes = np.nonzero(_above(scores, settings))
    return Scored(rows[places], classes.astype(np.int64), scores[places, classes])


def _find_possible(candidates: Candidates, settings: Settings) -> Array:
    """Returns the anchors that may have a score above the threshold, to save the work of the others."""
    activation, _ = _find_activations(candidates, settings)
    if candidates.objectness is not None or activation not in ("none", "sigmoid") or not candidates.values.size:
        return np.arange(len(candidates.values))
    least = settings.score if activation == "none" else logit(settings.score) - 1e-6
    return np.flatnonzero((candidates.values >= least).any(axis=1))


def score_all(candidates: Candidates, index: Array, settings: Settings) -> Array:
    """Returns the scores of every class (float64 (K, C)) of the anchors at K indices."""
    activation, other = _find_activations(candidates, settings)
    objectness = None if candidates.objectness is None else _activate(candidates.objectness[index], other)
    return _combine(_activate(candidates.values[index], activation), objectness, settings, candidates)


def _find_activations(candidates: Candidates, settings: Settings) -> tuple[str, str]:
    """Returns the activations of the class values and of the objectness."""
    activation = settings.activation or candidates.activation
    other = "sigmoid" if activation == "softmax" else activation
    return candidates.of_values or activation, candidates.of_objectness or other


def find_best(candidates: Candidates, settings: Settings) -> Array:
    """Returns the class with the highest score of each anchor (int64 (N,)), of equal ones the lowest: every activation
    keeps the order of values, and so does objectness, unless it is negative or zero."""
    values = candidates.values
    if not values.size:
        return np.zeros(0, np.int64)
    _, activation = _find_activations(candidates, settings)
    product = (settings.combine or candidates.combine) == "product"
    if candidates.objectness is not None and activation == "none" and product and (candidates.objectness <= 0).any():
        values = values * np.sign(candidates.objectness)[:, None]
    return _leave_out_background(values, settings).argmax(axis=1).astype(np.int64)


def score_best(candidates: Candidates, best: Array, settings: Settings) -> tuple[Array, Array]:
    """Returns the score of every anchor (float64 (N,)), and its class, which is `best`."""
    return score_parts(candidates, best, settings)[0], best


def score_parts(candidates: Candidates, classes: Array, settings: Settings) -> tuple[Array, Array, Array]:
    """Returns the score of every anchor (float64 (N,)) as of these classes (N,), its class score, and its objectness, 1 where
    there is none."""
    activation, other = _find_activations(candidates, settings)
    rows = np.arange(len(classes))
    values = softmax(candidates.values)[rows, classes] if activation == "softmax" else None
    of_class = _activate(candidates.values[rows, classes], activation) if values is None else values
    objectness = None if candidates.objectness is None else _activate(candidates.objectness, other)
    whole = _combine(of_class[:, None], objectness, settings, candidates)[:, 0]
    return whole, of_class, np.ones(len(rows)) if objectness is None else objectness


def keep_above(scores: Array, classes: Array, settings: Settings) -> Scored:
    """Returns the anchors whose score is above the threshold."""
    index = np.flatnonzero(_above(scores, settings))
    return Scored(index, classes[index], scores[index])


def _leave_out_background(values: Array, settings: Settings) -> Array:
    """Returns the values with the background's so low that it is no result."""
    if not 0 <= settings.background < values.shape[1]:
        return values
    values = np.array(values, np.float64)
    values[:, settings.background] = -np.inf
    return values


def _activate(values: Array, activation: str) -> Array:
    if activation == "sigmoid":
        return sigmoid(values)
    if activation == "softmax":
        return softmax(values)
    return np.asarray(values, np.float64)


def _combine(values: Array, objectness: Array | None, settings: Settings, candidates: Candidates) -> Array:
    combine = settings.combine or candidates.combine
    if objectness is None or combine == "class":
        return values
    if combine == "objectness":
        return np.broadcast_to(objectness[:, None], values.shape)
    if combine == "objectness-twice":
        return values * objectness[:, None] * objectness[:, None]
    if combine == "root":
        return np.sqrt(np.clip(values, 0.0, 1.0) * np.clip(objectness, 0.0, 1.0)[:, None])
    return values * objectness[:, None]


def _above(scores: Array, settings: Settings) -> Array:
    return scores >= settings.score if settings.score_equal else scores > settings.score


def suppress(candidates: Candidates, scored: Scored, settings: Settings) -> Boxes:
    """Returns the detections that NMS keeps, in input pixels, the highest score first. Of equal scores the anchor that
    comes first goes first, of one anchor the lowest class. Boxes with NaN or infinite corners are left out."""
    order = np.argsort(-scored.scores, kind="stable")
    order = order[: settings.before_nms or None]
    boxes = candidates.boxes(scored.index[order])
    finite = np.isfinite(boxes).all(axis=1)
    order, boxes = order[finite], boxes[finite]
    classes = scored.classes[order]
    if settings.nms != "none":
        kept = find_kept(
            boxes, classes if settings.nms == "class-wise" else np.zeros_like(classes), settings.iou, settings.top
        )
    else:
        kept = np.arange(len(order))
    kept = kept[: settings.top or None]
    index = scored.index[order[kept]]
    points = None if candidates.keypoints is None else candidates.keypoints(index)
    return Boxes(boxes[kept], scored.scores[order[kept]], classes[kept], points)


def find_kept(boxes: Array, classes: Array, iou: float, most: int = 0) -> Array:
    """Returns the places of the boxes (N, 4), sorted by falling score, that greedy NMS keeps: a box goes if its IoU with
    a kept box of its class is above `iou`. most: stops after this number, 0 never. A box without area overlaps
    nothing."""
    x1, y1, x2, y2 = np.ascontiguousarray(boxes.T)
    area = np.maximum(x2 - x1, 0.0) * np.maximum(y2 - y1, 0.0)
    places, at = np.arange(len(boxes)), 0
    kept: list[int] = []
    while at < len(places) and not (most and len(kept) == most):
        kept.append(int(places[at]))
        left = slice(at + 1, None)
        wide = np.minimum(x2[at], x2[left]) - np.maximum(x1[at], x1[left])
        high = np.minimum(y2[at], y2[left]) - np.maximum(y1[at], y1[left])
        inner = np.maximum(wide, 0.0) * np.maximum(high, 0.0)
        over = (inner > iou * (area[at] + area[left] - inner)) & (inner > 0.0) & (classes[left] == classes[at])
        at += 1
        if over.any():
            stays = ~over
            x1, y1, x2, y2, area, classes, places = (
                values[at:][stays] for values in (x1, y1, x2, y2, area, classes, places)
            )
            at = 0
    return np.array(kept, np.int64)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a picture lies in the network's input: input = picture * ratio + pad, each (x, y)."""

    ratio: tuple[float, float]
    pad: tuple[float, float]


def find_placement(size: tuple[int, int], settings: Settings) -> Placement:
    """Returns where the picture lies in an input of this size. A letterboxed picture is scaled by the smaller ratio and
    rounded to whole pixels (half to even), with the odd pixel of padding on the right and at the bottom."""
    frame = settings.frame
    if frame == (0, 0):
        return Placement((1.0, 1.0), (0.0, 0.0))
    if settings.roi:
        x, y, wide, high = settings.roi
        across = size[0] / wide, size[1] / high
        return Placement(across, (-x * across[0], -y * across[1]))
    if settings.fit == "stretch":
        return Placement((size[0] / frame[0], size[1] / frame[1]), (0.0, 0.0))
    ratio = min(size[0] / frame[0], size[1] / frame[1])
    if settings.fit == "letterbox-top-left":
        return Placement((ratio, ratio), (0.0, 0.0))
    pads = tuple((size[at] - round(frame[at] * ratio)) // 2 for at in (0, 1))
    return Placement((ratio, ratio), (float(pads[0]), float(pads[1])))


def to_picture(found: Boxes, size: tuple[int, int], settings: Settings) -> Boxes:
    """Returns detections in pixels of the picture, if its size is stated, clipped to it (or to the input) if the settings
    say so."""
    placement = find_placement(size, settings)
    pad, ratio = np.array(placement.pad), np.array(placement.ratio)
    boxes = (found.boxes.reshape(-1, 2, 2) - pad) / ratio
    limits = np.array(size if settings.frame == (0, 0) else settings.frame, np.float64)
    if settings.clip:
        boxes = np.clip(boxes, 0.0, limits)
    points, corners = found.keypoints, found.corners
    if points is not None:
        points = np.concatenate([(points[..., :2] - pad) / ratio, points[..., 2:]], axis=-1)
    if corners is not None:
        corners = (corners - pad) / ratio
    return replace(found, boxes=boxes.reshape(-1, 4), keypoints=points, corners=corners)


def from_centres(centre: Array, extent: Array) -> Array:
    """Returns x1, y1, x2, y2 of centres (K, 2) and widths and heights (K, 2)."""
    half = extent / 2.0
    return np.concatenate([centre - half, centre + half], axis=1)


def grid_parts(numbers: Array, levels: tuple[Level, ...]) -> Callable[[Array], BoxParts]:
    """Returns the parts of boxes of a grid without anchors, whose sizes are in strides. numbers: (N, 4 or more), of all levels."""

    def parts(index: Array) -> BoxParts:
        cells, strides = make_centres(levels, 0.0)
        stride = np.repeat(strides[index, None], 2, axis=1)
        return BoxParts(np.asarray(numbers[index], np.float64), cells[index] * stride, stride, stride)

    return parts
