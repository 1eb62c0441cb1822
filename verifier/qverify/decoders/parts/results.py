"""What decoders return: plain arrays, without references to the outputs that they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Boxes:
    """Detections, in the order of the decoder: the highest score first.

    Attributes:
        boxes: float64 (N, 4): x1, y1, x2, y2 in pixels of the picture if its size is stated, else of the network's input.
        scores: float64 (N,).
        classes: int64 (N,).
        keypoints: float64 (N, P, 2): x, y in the same pixels, or (N, P, 3) with a score; None if there are none.
        corners: float64 (N, 4, 2): corners of turned boxes in the same pixels, clockwise; None if boxes are upright.
    """

    boxes: Array
    scores: Array
    classes: Array
    keypoints: Array | None = None
    corners: Array | None = None

    def __len__(self) -> int:
        return len(self.boxes)

    def take(self, index: Array) -> Boxes:
        """Returns the detections at these places, in this order."""
        points = None if self.keypoints is None else self.keypoints[index]
        corners = None if self.corners is None else self.corners[index]
        return Boxes(self.boxes[index], self.scores[index], self.classes[index], points, corners)


@dataclass(frozen=True, slots=True)
class Keypoints:
    """One set of keypoints. points: float64 (P, 2), x and y in pixels as for Boxes. scores: float64 (P,)."""

    points: Array
    scores: Array


@dataclass(frozen=True, slots=True)
class Mask:
    """The class of each pixel. labels: int64 (H, W), as large as the network's output."""

    labels: Array


@dataclass(frozen=True, slots=True)
class Text:
    """Recognized text. text: the characters; without a list of characters the codes, separated by spaces. codes: int64
    (L,), the kept classes. score: mean of their probabilities, 0.0 for an empty text."""

    text: str
    codes: Array
    score: float


@dataclass(frozen=True, slots=True)
class Classes:
    """Ranked classes: the highest score first, of equal scores the lowest class. classes: int64 (K,). scores: float64
    (K,)."""

    classes: Array
    scores: Array


Result = Boxes | Keypoints | Mask | Text | Classes
KINDS: dict[str, type[Any]] = {"boxes": Boxes, "keypoints": Keypoints, "mask": Mask, "text": Text, "classes": Classes}


def no_boxes(points: int = 0) -> Boxes:
    """Returns a Boxes without a row. points: number of keypoints of each row, 0 for no keypoints."""
    keypoints = np.zeros((0, points, 2)) if points else None
    return Boxes(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64), keypoints)
