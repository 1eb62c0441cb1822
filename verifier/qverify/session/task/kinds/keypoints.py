"""Keypoints: PCK, the mean object keypoint similarity, and mAP by the COCO evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders import Boxes, Keypoints
from qverify.errors import TaskError
from qverify.session.task.boxes import iou_table
from qverify.session.task.coco import SIGMA, CocoLabels, LabelledImage, evaluate, read_coco
from qverify.session.task.kinds import Outputs, TaskContext
from qverify.session.task.metrics import Means, Score

NAME = "keypoints"
LABELS = "COCO JSON with keypoints [x, y, visibility, ...]; an image has its frame's name, with or without the ending"
SUMMARY = "PCK (within pck=SHARE of the object's longer side), mean OKS, COCO's mAP by OKS"
DEFAULTS = {"pck": "0.05", "least": "0.001"}
COCO_SIGMAS = np.array([26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]) / 1000.0
Array = npt.NDArray[Any]


class Evaluator(Means):
    step = 0.02
    name, names = NAME, ("pck", "oks", "oks_map")

    def __init__(self, context: TaskContext):
        super().__init__(context.labels)
        if not context.labels:
            raise TaskError(f"--task {NAME}: wanted --labels FILE, {LABELS}")
        self._context, self._pck = context, context.number("pck", 1e-6, 1)
        more: dict[str, Any] = {"score": context.number("least", 0, 1)}
        more |= {"size": list(context.input_size)} if context.input_size != (0, 0) else {}
        more |= {"fit": context.fit} if context.fit else {}
        self._decoder = context.find_decoder("heatmaps", ("keypoints", "boxes"), **more)
        context.check_decoder(self._decoder)
        self.decoder, self._coco = self._decoder.name, CocoLabels([], {})

    def labels(self, frames: list[str]) -> list[Any]:
        self._coco = read_coco(self._path, frames)
        self.labelled = self._coco.labelled
        if not any("keypoints" in a for image in self._coco.images for a in image.objects):
            raise TaskError(f"--labels {self._path}: no annotation of a frame has keypoints")
        return list(self._coco.images)

    def score(self, outputs: Outputs, label: LabelledImage, frame: str, side: str) -> Score:
        size = label.size if label.size != (0, 0) else self._context.input_size
        found = self._context.decode(self._decoder, outputs, frame, side, size)
        if isinstance(found, Keypoints):
            points, boxes, scores = found.points[None], None, np.array([found.scores.mean()])
        elif isinstance(found, Boxes) and found.keypoints is not None:
            points, boxes, scores = found.keypoints[..., :2], found.boxes, found.scores
        else:
            raise TaskError(f"--decoder {self.decoder}: gives no keypoints")
        hits, similar, labelled = 0, list[float](), 0
        for row in (a for a in label.objects if "keypoints" in a and not a["iscrowd"] and a["num_keypoints"]):
            truth = np.array(row["keypoints"]).reshape(-1, 3)
            seen = truth[:, 2] > 0
            if points.shape[1] != len(truth):
                raise TaskError(
                    f"--labels {self._path}: {len(truth)} keypoints, the decoder {self.decoder} gives {points.shape[1]}"
                )
            at = _nearest(row["bbox"], boxes)
            away = np.full(len(truth), np.inf) if at is None or not len(points) else _distances(points[at], truth)
            within = away[seen] <= self._pck * max(row["bbox"][2:] or [0.0])
            hits, labelled = hits + int(within.sum()), labelled + int(seen.sum())
            similar.append(_similarity(away[seen], row["area"], _sigmas(len(truth))[seen]))
        results = self._results(label, points, scores)
        oks = float(np.mean(similar)) if similar else float("nan")
        share = hits / labelled if labelled else float("nan")
        return Score(
            {},
            None,
            f"PCK {share:.2f}, OKS {oks:.2f}",
            share if labelled else None,
            (hits, labelled, similar, results, label),
        )

    def _results(self, label: LabelledImage, points: Array, scores: Array) -> list[dict[str, Any]]:
        """Returns objects as results of COCO."""
        finite = np.isfinite(points).all(axis=(1, 2)) & np.isfinite(scores)
        return [
            {
                "image_id": label.number,
                "category_id": self._coco.numbers[0],
                "keypoints": np.concatenate([points[at], np.ones((points.shape[1], 1))], axis=1).reshape(-1).tolist(),
                "score": float(scores[at]),
            }
            for at in np.flatnonzero(finite)
        ]

    def summarize(self, scores: Sequence[Score], base: Sequence[Score | None]) -> dict[str, float]:
        hits, labelled = (sum(score.kept[at] for score in scores) for at in (0, 1))
        similar = [oks for score in scores for oks in score.kept[2]]
        values = {
            "pck": hits / labelled if labelled else float("nan"),
            "oks": float(np.mean(similar)) if similar else float("nan"),
        }
        results = [row for score in scores for row in score.kept[3]]
        values["oks_map"] = evaluate([s.kept[4] for s in scores], self._coco.numbers[:1], results, "keypoints")[0]
        return values


def _nearest(box: Sequence[float], boxes: Array | None) -> int | None:
    """Returns which object is that of a label: the only set of keypoints, or the one with the largest IoU; None if none
    meets it."""
    if boxes is None:
        return 0
    truth = np.array([[box[0], box[1], box[0] + box[2], box[1] + box[3]]])
    table = iou_table(truth, boxes)[0] if len(boxes) else np.zeros(0)
    return int(table.argmax()) if len(table) and table.max() > 0 else None


def _distances(points: Array, truth: Array) -> Array:
    away = np.sqrt(((points - truth[:, :2]) ** 2).sum(axis=1))
    return np.where(np.isfinite(away), away, np.inf)


def _sigmas(points: int) -> Array:
    return COCO_SIGMAS if points == len(COCO_SIGMAS) else np.full(points, SIGMA)


def _similarity(away: Array, area: float, sigmas: Array) -> float:
    """Returns the object keypoint similarity: the mean of exp(-d^2 / (2 area (2 sigma)^2))."""
    finite = np.isfinite(away)
    exponent = np.where(finite, away, 0.0) ** 2 / (2 * max(area, np.spacing(1.0)) * (2 * sigmas) ** 2)
    return float(np.where(finite, functions64.exp(-exponent), 0.0).mean())
