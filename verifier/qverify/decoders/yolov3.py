"""YOLOv3: three anchors per cell; raw heads, or rows that the network decoded itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from qverify.decoders.parts.anchor_heads import by_powers, read_candidates
from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import Candidates, select
from qverify.decoders.parts.settings import Settings

Outputs = Mapping[str, npt.NDArray[Any]]
NAME = "yolov3"
RESULT = "boxes"
DEFAULTS = Settings(anchors=((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326)))


def candidates(outputs: Outputs, settings: Settings) -> Candidates:
    """Returns the candidates: centre (s(xy) + cell) * stride, size exp(wh) * anchor."""
    return read_candidates(outputs, settings, by_powers, 0.0)


def decode(outputs: Outputs, settings: Settings) -> Boxes:
    """Returns the detections."""
    return select(candidates(outputs, settings), settings)
