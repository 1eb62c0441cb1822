"""YOLOv7: three anchors per cell; raw heads, or rows that the network decoded itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from qverify.decoders.parts.anchor_heads import by_squares, read_candidates
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, select
from qverify.decoders.parts.settings import Settings

Outputs = Mapping[str, npt.NDArray[Any]]
NAME = "yolov7"
RESULT = "boxes"
DEFAULTS = Settings(anchors=((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401)))


def candidates(outputs: Outputs, settings: Settings) -> Candidates:
    """Returns the candidates: centre (2 s(xy) - 0.5 + cell) * stride, size (2 s(wh))^2 * anchor."""
    return read_candidates(outputs, settings, by_squares, -0.5)


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the detections."""
    return select(candidates(outputs, settings), settings)
