"""Boxes in the order of their scores, without those that overlap a better one (NUMERICS.md, non_max_suppression)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
WORDS = ("most", "center_point_box", "iou_f32", "scored", "score_f32")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    boxes, scores = inputs
    assert boxes is not None and scores is not None
    most, centred, iou, scored, score = node.words
    y, rows = np.full(graph.spec(node.outputs[0]).shape, -1, np.int64), 0
    with np.errstate(all="ignore"):
        for image, of_image in enumerate(scores):
            low, high = _corners(boxes[image], bool(centred))
            for kind, of_class in enumerate(of_image):
                chosen = of_class > float_word(score) if scored else of_class == of_class
                kept = _keep(low, high, of_class, np.flatnonzero(chosen), most, float_word(iou))
                y[rows : rows + len(kept)] = [(image, kind, box) for box in kept] or np.empty((0, 3))
                rows += len(kept)
    return (y,)


def _corners(boxes: Array, centred: bool) -> tuple[Array, Array]:
    """Returns the lower and upper corners, [boxes, 2]."""
    if centred:
        half = boxes[:, 2:] / np.float32(2)
        return boxes[:, :2] - half, boxes[:, :2] + half
    one, other = boxes[:, :2], boxes[:, 2:]
    return np.where(one > other, other, one), np.where(one > other, one, other)


def _keep(low: Array, high: Array, scores: Array, left: Array, most: int, limit: Any) -> list[int]:
    """Returns the boxes that are kept, best first. left: the candidates."""
    left = left[np.argsort(-scores[left], kind="stable")]
    area, kept = (high[:, 0] - low[:, 0]) * (high[:, 1] - low[:, 1]), list[int]()
    while len(left) and len(kept) < most:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        first, last = np.maximum(low[left], low[best]), np.minimum(high[left], high[best])
        shared = (last[:, 0] - first[:, 0]) * (last[:, 1] - first[:, 1])
        both = (area[best] + area[left]) - shared
        proper = (last > first).all(1) & (shared > 0) & (area[best] > 0) & (area[left] > 0) & (both > 0)
        left = left[~(proper & (shared / both > limit))]
    return kept
