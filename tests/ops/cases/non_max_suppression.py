"""non_max_suppression: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def the_best_boxes(m: Qdq) -> None:
    """Two images and three classes, with equal scores, and the boxes gathered behind it."""
    boxes, scores = m.input((2, 40, 4), 0, 9), m.input((2, 3, 40), 0, 1)
    more = [m.constant(f"c{k}", v) for k, v in enumerate((np.array([5]), np.float32([0.2]), np.float32([0.4])))]
    kept = m.op("NonMaxSuppression", [boxes, scores, *more])
    m.output(kept)
    m.output(m.op("GatherND", [boxes, m.op("Gather", [kept, m.constant("pick", np.array([0, 2]))], axis=1)]))


@reference(integer=False)
def boxes_by_their_centres(m: Qdq) -> None:
    boxes, scores = m.input((1, 30, 4), 0, 5), m.input((1, 2, 30), 0, 1)
    m.output(m.op("NonMaxSuppression", [boxes, scores, m.constant("most", np.array(50))], center_point_box=1))


def random_nodes(r: RandomNodes) -> None:
    """Touching, equal, empty, turned and infinite boxes, equal scores and NaN, by both forms, with and without thresholds."""
    sides = np.array([0, 1, 2, 2.5, 3, 4, -1, np.inf, np.nan], np.float32)
    grades = np.array([0.1, 0.5, 0.5, 0.9, -0.3, np.nan, np.inf], np.float32)
    boxes = [
        r.plain(r.rng.choice(sides[:7], (2, 37, 4))),
        r.plain(r.rng.choice(sides, (2, 37, 4))),
        r.floats((2, 37, 4)),
    ]
    scores = [r.plain(r.rng.choice(grades, (2, 3, 37))), r.floats((2, 3, 37))]
    for most, centred, iou, scored in ((1, 0, 0.5, 0), (5, 1, 0.0, 1), (37, 0, 0.3, 1), (37, 1, 0.25, 0)):
        for x in boxes:
            for of in scores:
                words = (most, centred, float_word(iou), scored, float_word(0.1 if scored else 0.0))
                r.node("non_max_suppression", (x, of), r.plain_output("int64", (6 * most, 3)), words)
