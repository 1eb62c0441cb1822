"""The frames that only the board has wrong, or on which it is worse than every side of the host, with boxes to draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qverify.compare.drawings.inputs import draw_inputs
from qverify.decoders.parts.selection import find_placement
from qverify.decoders.parts.settings import Settings
from qverify.report.document import TaskBox, TaskFrame
from qverify.report.drawings import InputDrawing, TaskPicture
from qverify.session.task.kinds.detection import KeptBoxes
from qverify.session.task.metrics import Score
from qverify.tensors.prepared import PreparedInputs

MAX_DRAWN, MAX_BOXES = 8, 60  # frames with a picture; boxes of one side


def is_worse(scores: dict[str, Score], hosts: tuple[str, ...], step: float) -> bool:
    """Returns whether the board is wrong and every side of the host right, or, of metrics with levels, whether it is worse than
    each of them by more than `step`."""
    board = scores.get("board")
    others = [scores[side] for side in hosts if side in scores]
    if board is None or not others:
        return False
    if board.right is not None:
        return board.right is False and all(score.right for score in others)
    levels = [score.level for score in others]
    return board.level is not None and all(level is not None and board.level < level - step for level in levels)


def loss(scores: dict[str, Score], hosts: tuple[str, ...]) -> float:
    """Returns how much the board's level is below the lowest of the host."""
    levels = [s.level for side, s in scores.items() if side in hosts and s.level is not None]
    board = scores["board"].level
    return min(levels) - board if levels and board is not None else 0.0


@dataclass(slots=True)
class FramePictures:
    """Keeps the pictures of the worst frames: at most MAX_DRAWN."""

    _kept: list[tuple[float, int, InputDrawing]] = field(default_factory=list)

    def add(self, number: int, loss_of_frame: float, prepared: PreparedInputs) -> None:
        """Keeps the picture of a frame if it is among the worst so far."""
        if len(self._kept) == MAX_DRAWN and self._kept[-1][0] >= loss_of_frame:
            return
        drawing = next((d for d in draw_inputs(prepared) if d.picture is not None), None)
        if drawing is not None:
            self._kept = sorted([*self._kept, (loss_of_frame, number, drawing)], key=lambda k: (-k[0], k[1]))[
                :MAX_DRAWN
            ]

    def get(self, number: int) -> InputDrawing | None:
        """Returns the picture of a frame, None if it is not kept."""
        return next((drawing for _, kept, drawing in self._kept if kept == number), None)


def add_boxes(
    frame: TaskFrame, scores: dict[str, Score], base: str, picture: InputDrawing | None, fit: str, names: dict[int, str]
) -> None:
    """Adds the boxes of the labels, of the base and of the board to a frame of a detector, and its picture if one is kept.
    base: reference or simulator. fit: how pictures are fitted into the input. names: of the categories."""
    board = scores["board"].kept
    if not isinstance(board, KeptBoxes):
        return
    label = board.image
    rows = [("label", label.boxes(), np.ones(len(label.boxes())), label.classes())]
    for side in (base, "board"):
        kept: Any = scores[side].kept if side in scores else None
        if isinstance(kept, KeptBoxes):
            rows.append(
                (side, kept.boxes.boxes[kept.above], kept.boxes.scores[kept.above], kept.categories[kept.above])
            )
    for side, boxes, found, categories in rows:
        for at in range(min(len(boxes), MAX_BOXES)):
            x1, y1, x2, y2 = (round(v, 3) for v in boxes[at].tolist())
            name = names.get(int(categories[at]), str(int(categories[at])))
            frame.boxes.append(TaskBox(side, x1, y1, x2, y2, round(float(found[at]), 6), name))
    if picture is not None and picture.picture is not None:
        height, width = _plane(picture.shape)
        size = label.size if label.size != (0, 0) else (width, height)
        placed = find_placement((width, height), Settings(frame=size, fit=fit))
        frame.picture = TaskPicture(picture.picture, (width, height), placed.ratio, placed.pad)


def _plane(shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns height and width of an input that is a picture."""
    first = shape[-3:]
    return (first[0], first[1]) if first[2] in (1, 3) else (first[1], first[2])
