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
            low, high = _find_corners(boxes[image], bool(centred))
            for kind, of_class in enumerate(of_image):
                chosen = of_class > float_word(score) if scored else of_class == of_class
                kept = _keep(low, high, of_class, np.flatnonzero(chosen), most, float_word(iou))
                y[rows : rows + len(kept)] = [(image, kind, box) for box in kept] or np.empty((0, 3))
                rows += len(kept)
    return (y,)


def _find_corners(boxes: Array, centred: bool) -> tuple[Array, Array]:
    """Returns the lower and the upper corners of the boxes, [boxes, 2] each."""
    if centred:
        half = boxes[:, 2:] / np.float32(2)
        return boxes[:, :2] - half, boxes[:, :2] + half
    corner_a, corner_b = boxes[:, :2], boxes[:, 2:]
    return np.where(corner_a > corner_b, corner_b, corner_a), np.where(corner_a > corner_b, corner_a, corner_b)


def _keep(low: Array, high: Array, scores: Array, candidates: Array, most: int, limit: Any) -> list[int]:
    """Returns the indices of the boxes that are kept, the best first."""
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    area, kept = (high[:, 0] - low[:, 0]) * (high[:, 1] - low[:, 1]), list[int]()
    while len(candidates) and len(kept) < most:
        best, candidates = int(candidates[0]), candidates[1:]
        kept.append(best)
        first, last = np.maximum(low[candidates], low[best]), np.minimum(high[candidates], high[best])
        shared = (last[:, 0] - first[:, 0]) * (last[:, 1] - first[:, 1])
        both = (area[best] + area[candidates]) - shared
        proper = (last > first).all(1) & (shared > 0) & (area[best] > 0) & (area[candidates] > 0) & (both > 0)
        candidates = candidates[~(proper & (shared / both > limit))]
    return kept
